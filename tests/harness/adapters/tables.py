"""The result store of a run, and the tables of its pipeline: made before it starts, and read when it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row

from effectively_once.sinks import tables
from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.tables import TableShape
from infra.embedded.postgres import PostgresServer

SOURCE = ("topic", "partition", "offset")


class Tables:
    """The tables of one pipeline; credentials of the server are in the environment."""

    def __init__(self, server: PostgresServer, pipeline: str) -> None:
        """`server` runs."""
        self._server, self._pipeline = server, pipeline

    def make(self, sink: str, shape: TableShape, shards: int) -> None:
        """Make a sink's table and its marks. Raises what effectively_once.sinks.tables.make raises."""
        tables.make(DatabaseAddress(self._server.url), self._pipeline, sink, shape, shards)

    def count(self, sink: str) -> int:
        """How many rows a table has."""
        with self._server.connect() as connection:
            found = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(self._name(sink))).fetchone()
        return int(found[0]) if found else 0

    def rows(self, sink: str) -> Iterator[dict[str, Any]]:
        """Every row of a table, its source coordinate as `source`, as messages of a topic have it."""
        with self._server.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
            for row in cursor.execute(sql.SQL("SELECT * FROM {}").format(self._name(sink))):
                source = [row.pop(name) for name in SOURCE]
                yield {**row, "source": source}

    def _name(self, sink: str) -> sql.Identifier:
        return sql.Identifier(self._pipeline, sink)
