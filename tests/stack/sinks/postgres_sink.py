"""The PostgreSQL sink under the conformance suite."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
import pyarrow as pa
from psycopg import sql

from effectively_once.sinks.database import DatabaseAddress, connect
from effectively_once.sinks.postgres import TableAddress, TableSink
from effectively_once.sinks.tables import TableShape, make
from tests.stack.sinks.adapter import PATIENCE_S, TRANSACTION, Adapter, Announce, silent

SHAPE = TableShape(pa.schema([("id", pa.string())]))
WIDER = TableShape(pa.schema([("id", pa.string()), ("country", pa.string())]))


class PostgresAdapter(Adapter):
    """Rows are rows of a table that is appended to and has no key."""

    points = TRANSACTION
    shape = SHAPE

    @property
    def address(self) -> TableAddress:
        """The shard that is published."""
        return TableAddress(DatabaseAddress(self.place.database), self.place.pipeline, "accepted", 1)

    def make(self) -> None:
        """Make the table and its marks."""
        make(self.address.database, self.place.pipeline, "accepted", SHAPE, 2)

    def sink(self, announce: Announce = silent) -> TableSink:
        """Open a publisher."""
        return TableSink(self.address, self.shape, announce, PATIENCE_S)

    def rows(self, ids: Sequence[str], country: str | None = None) -> pa.Table:
        """Return a table."""
        columns = {"id": ids} if country is None else {"id": ids, "country": [country] * len(ids)}
        return pa.table(columns, schema=(SHAPE if country is None else WIDER).schema)

    def visible(self) -> list[tuple[str, str | None]]:
        """Read the table."""
        columns = sql.SQL("id, to_jsonb(t) ->> 'country'")
        query = sql.SQL("SELECT {} FROM {} AS t").format(columns, sql.Identifier(*self.address.table))
        return sorted(self.execute(query).fetchall(), key=str)

    def missing(self) -> tuple[TableSink, str]:
        """Open a publisher of a sink without a table."""
        address = TableAddress(self.address.database, self.place.pipeline, "nowhere", 1)
        return TableSink(address, SHAPE), rf"the table does not exist .table {self.place.pipeline}.nowhere.*effectively"

    def other_columns(self) -> str:
        """Make ids numbers."""
        self.execute(self._alter("ALTER COLUMN id TYPE bigint USING length(id)"))
        return rf"id is bigint and must be text .table {self.place.pipeline}\.accepted"

    def add_column(self) -> None:
        """Add it to the table; then a version of the job that gives it is started."""
        self.execute(self._alter("ADD COLUMN country text"))
        self.shape = WIDER

    def execute(self, query: sql.Composed) -> psycopg.Cursor[tuple[str, str | None]]:
        """Run one statement."""
        with connect(self.address.database, "test") as session:
            return session.execute(query)

    def _alter(self, change: str) -> sql.Composed:
        return sql.SQL("ALTER TABLE {} {}").format(sql.Identifier(*self.address.table), sql.SQL(change))
