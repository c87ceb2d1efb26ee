"""The lake tables of a run, read as somebody else does: by PyIceberg and Arrow alone, without a line of the product's.

Which metadata is a table's own, the catalog in the result store says. All that follows from it is read from the object
store by PyIceberg's own reader: snapshots, manifests, data files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from pyarrow.fs import FileSystem, S3FileSystem
from pyiceberg.io import PY_IO_IMPL, S3_ENDPOINT, S3_REGION
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable

from effectively_once.store.object_store import BucketAddress
from effectively_once.store.s3_client import CERTIFICATES
from tests.harness.adapters.tables import Tables
from tests.harness.evidence import EvidenceError

_WHERE = """
SELECT metadata_location FROM effectively_once.iceberg_tables
WHERE catalog_name = 'effectively_once' AND table_namespace = %s AND table_name = %s
"""
BATCH = 10_000
"""Rows that are turned into Python at a time."""


class BelievingFileIO(PyArrowFileIO):
    """PyIceberg's own, which asks Arrow, and has no property for whom to believe: the environment names a file."""

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        return S3FileSystem(
            endpoint_override=self.properties[S3_ENDPOINT],
            region=self.properties[S3_REGION],
            tls_ca_file_path=os.environ.get(CERTIFICATES) or None,
        )


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
        own = f"{BelievingFileIO.__module__}.{BelievingFileIO.__qualname__}"
        store = {S3_ENDPOINT: self._bucket.endpoint, S3_REGION: "us-east-1", PY_IO_IMPL: own}
        return StaticTable.from_metadata(found[0], store)
