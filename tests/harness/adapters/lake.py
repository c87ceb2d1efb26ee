"""The lake tables of a run, read as somebody else does: by PyIceberg and Arrow alone, without a line of the product's.

Which metadata is a table's own, the catalog in the result store says. All that follows from it is read from the object
store by PyIceberg's own reader: snapshots, manifests, data files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyiceberg.table import StaticTable

from effectively_once.store.object_store import BucketAddress
from tests.harness.adapters.tables import Tables
from tests.harness.evidence import EvidenceError

_WHERE = """
SELECT metadata_location FROM effectively_once.iceberg_tables
WHERE catalog_name = 'effectively_once' AND table_namespace = %s AND table_name = %s
"""
BATCH = 10_000
"""Rows that are turned into Python at a time."""


class LakeTables:
    """The lake tables of one pipeline; credentials of both servers are in the environment.

    Args:
        tables: of the pipeline; the catalog is on their server.
        bucket: where the files are.
    """

    def __init__(self, tables: Tables, bucket: BucketAddress) -> None:
        self._tables, self._bucket = tables, bucket

    def count(self, sink: str) -> int:
        """How many rows a table has. Raises EvidenceError as `rows`."""
        found: int = self._table(sink).scan().count()
        return found

    def rows(self, sink: str) -> Iterator[dict[str, Any]]:
        """Every row of a table. Raises EvidenceError when the catalog has no such table."""
        for batch in self._table(sink).scan().to_arrow().to_batches(BATCH):
            yield from batch.to_pylist()

    def _table(self, sink: str) -> StaticTable:
        name = (self._tables.pipeline, sink)
        with self._tables.server.connect() as connection:
            found = connection.execute(_WHERE, name).fetchone()
        if found is None:
            raise EvidenceError("the catalog has no such lake table", ".".join(name), "did `create` run?")
        store = {"s3.endpoint": self._bucket.endpoint, "s3.region": "us-east-1"}
        return StaticTable.from_metadata(found[0], store)
