"""The Iceberg sink under the conformance suite; the link is that of the database, which its catalog is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import pyarrow as pa
from pyiceberg.types import StringType

from effectively_once.ledger.rows import Rows
from effectively_once.sinks import lake_tables
from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.iceberg import IcebergSink
from effectively_once.sinks.lake_catalog import LakeAddress, open_catalog
from effectively_once.sinks.lake_files import LakeShape
from effectively_once.sinks.publish import Published
from effectively_once.store.object_store import BucketAddress, shared_store
from tests.stack.sinks.adapter import PATIENCE_S, Adapter, Announce, silent
from tests.stack.sinks.manifest_sink import make_bucket

SHAPE = LakeShape(pa.schema([("id", pa.string())]))
WIDER = LakeShape(pa.schema([("id", pa.string()), ("country", pa.string())]))


class WholeSink:
    """Stages and shows, as shards and driver do one after the other."""

    def __init__(self, sink: IcebergSink) -> None:
        self._sink = sink

    def publish(self, epoch: int, generation: int, rows: pa.Table, /) -> tuple[Rows, Published]:
        """See Sink."""
        return self._sink.publish_staged(epoch, generation, [self._sink.stage(epoch, rows)])


class IcebergAdapter(Adapter):
    """Rows are rows of a table an epoch."""

    points: ClassVar = {
        "before": {"point": "ids_decided"},
        "inside": {"point": "put_done", "key": r".*\.metadata\.json"},
        "after": {"point": "committed"},
    }
    through = "postgres"
    fences = False
    without: ClassVar = {
        "fencing": "a driver that was replaced can commit the declared epoch's snapshot, identically, and the newer "
        "one finds it; there is nothing to refuse it",
        "other_partitioning": "it has no shards: the driver shows one snapshot an epoch, however rows were spread",
    }
    shape = SHAPE

    @property
    def address(self) -> LakeAddress:
        """The table."""
        bucket = BucketAddress(self.place.s3, self.place.pipeline)
        return LakeAddress(DatabaseAddress(self.place.database), bucket, self.place.pipeline, "accepted")

    def make(self) -> None:
        """Make a bucket, the catalog and the table."""
        make_bucket(self.place)
        lake_tables.create(self.address, SHAPE)

    def sink(self, announce: Announce = silent) -> WholeSink:
        """Open a publisher."""
        return self._open(self.address, announce)

    def rows(self, ids: Sequence[str], country: str | None = None) -> pa.Table:
        """Return a table."""
        columns = {"id": ids} if country is None else {"id": ids, "country": [country] * len(ids)}
        return pa.table(columns, schema=(SHAPE if country is None else WIDER).schema)

    def visible(self) -> list[tuple[str, str | None]]:
        """Scan the newest snapshot."""
        found = open_catalog(self.address).load_table(self.address.identifier).scan().to_arrow().to_pylist()
        return sorted(((row["id"], row.get("country")) for row in found), key=str)

    def missing(self) -> tuple[WholeSink, str]:
        """Open a publisher of a sink without a table."""
        address = LakeAddress(self.address.database, self.address.bucket, self.place.pipeline, "nowhere")
        return self._open(address, silent), rf"lake table does not exist .lake table {self.place.pipeline}\.nowhere"

    def other_columns(self) -> str:
        """Drop one."""
        with open_catalog(self.address).load_table(self.address.identifier).update_schema(True) as change:
            change.delete_column("id")
        return rf"the table lacks id string .lake table {self.place.pipeline}\.accepted"

    def add_column(self) -> None:
        """Add it to the table; then a version of the job that gives it is started."""
        with open_catalog(self.address).load_table(self.address.identifier).update_schema() as change:
            change.add_column("country", StringType())
        self.shape = WIDER

    def at_commit(self, begin: Callable[[bytes], None]) -> Announce:
        """The commit is the database's, of the row that names the table's metadata."""

        def announce(point: str) -> None:
            if point == "transaction_open":
                begin(b"COMMIT")

        return announce

    def _open(self, address: LakeAddress, announce: Announce) -> WholeSink:
        opened = partial(open_catalog, address, PATIENCE_S)
        return WholeSink(IcebergSink(shared_store(address.bucket), address, self.shape, announce, opened=opened))
