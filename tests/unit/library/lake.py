"""A lake table in memory: PyIceberg's SQL catalog on SQLite, its files in a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.table import CommitTableResponse, Table
from sqlalchemy import Engine, StaticPool, create_engine

from effectively_once.ledger.layout import Layout
from effectively_once.sinks import lake_tables
from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.iceberg import IcebergSink
from effectively_once.sinks.lake_catalog import LakeAddress, LakeCatalog
from effectively_once.sinks.lake_files import LakeShape
from effectively_once.store.object_store import BucketAddress
from tests.unit.ledger.memory_store import MemoryStore

SHAPE = LakeShape(pa.schema([("id", pa.string()), ("n", pa.int64())]))
ADDRESS = LakeAddress(
    DatabaseAddress("postgresql://db:5432/results"), BucketAddress("http://s3:9000", "data"), "clicks", "accepted"
)
LAYOUT = Layout("clicks")


class WatchedCatalog(LakeCatalog):
    """Has something done before a commit takes place, and something after it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Each is done once."""
        before, self.before = self.before, lambda: None
        before()
        done = super().commit_table(table, requirements, updates)
        after, self.after = self.after, lambda: None
        after()
        return done


def _engine() -> Engine:
    return create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})


@dataclass
class Lake:
    """The catalog and the store of one test, with a table."""

    store: MemoryStore = field(default_factory=MemoryStore)
    shape: LakeShape = SHAPE
    address: LakeAddress = ADDRESS

    def __post_init__(self) -> None:
        """Make the table."""
        self.catalog = WatchedCatalog(_engine(), self.store, self.address.root, made=True)
        lake_tables.make(self.catalog, self.address, self.shape)

    def sink(self, shape: LakeShape | None = None) -> IcebergSink:
        """Open a publisher, as a process of its own would."""
        return IcebergSink(self.store, self.address, shape or self.shape, opened=lambda: self.catalog)

    def publish(self, epoch: int, rows: pa.Table, generation: int = 1) -> Any:
        """Publish an epoch by a new publisher."""
        sink = self.sink()
        return sink.publish_staged(epoch, generation, [sink.stage(epoch, rows)])[1]

    def publish_epochs(self, epochs: Iterable[int]) -> None:
        """Publish epochs of one row each: `e0`, `e1`, and so on."""
        for epoch in epochs:
            self.publish(epoch, rows(f"e{epoch}"))

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table."""
        with self.table.transaction() as change:
            change.set_properties({**properties})

    @property
    def table(self) -> Table:
        """As readers find it."""
        return self.catalog.load_table(self.address.identifier)

    def summaries(self) -> list[dict[str, str]]:
        """Return what each snapshot says of itself, oldest first."""
        return [dict(one.summary.additional_properties) for one in self.table.snapshots() if one.summary]

    def ids(self) -> list[str]:
        """Return the ids that readers see, sorted."""
        found: list[str] = self.table.scan().to_arrow()["id"].to_pylist()
        return sorted(found)


def rows(*ids: str) -> pa.Table:
    """Return rows of these ids."""
    return pa.table({"id": list(ids), "n": list(range(len(ids)))}, schema=SHAPE.schema)
