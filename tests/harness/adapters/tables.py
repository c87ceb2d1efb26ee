"""The result store of a run, and the tables of its pipeline: made before it starts, and read when it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from effectively_once.operate.grant_tables import SHARED
from effectively_once.sinks import tables
from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.tables import TableShape


class Database(Protocol):
    """A server that runs."""

    @property
    def url(self) -> str:
        """postgresql://host:port/database, without credentials."""

    def connect(self) -> psycopg.Connection:
        """Open a connection as its owner; every statement commits by itself."""


class Tables:
    """The tables of one pipeline; credentials of the server are in the environment."""

    def __init__(self, server: Database, pipeline: str) -> None:
        """`server` runs."""
        self.server, self.pipeline = server, pipeline

    def make(self, sink: str, shape: TableShape, shards: int) -> None:
        """Make a sink's table and its marks. Raises what effectively_once.sinks.tables.make raises."""
        tables.make(DatabaseAddress(self.server.url), self.pipeline, sink, shape, shards)

    def count(self, sink: str) -> int:
        """How many rows a table has."""
        with self.server.connect() as connection:
            found = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(self._name(sink))).fetchone()
        return int(found[0]) if found else 0

    def rows(self, sink: str) -> Iterator[dict[str, Any]]:
        """Every row of a table."""
        with self.server.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
            # Times are compared as messages have them, and a server may be anywhere.
            cursor.execute("SET TIME ZONE 'UTC'")
            yield from cursor.execute(sql.SQL("SELECT * FROM {}").format(self._name(sink)))

    def drop(self) -> None:
        """Delete them, with their marks: on a server that others use too, nothing of the pipeline is left."""
        with self.server.connect() as connection:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self.pipeline)))
            for name, column in SHARED.items():
                table = sql.Identifier(tables.MARKS[0], name)
                # There since the first pipeline with a table, or with a lake table.
                if connection.execute("SELECT to_regclass(%s)", [table.as_string(connection)]).fetchone() != (None,):
                    connection.execute(
                        sql.SQL("DELETE FROM {} WHERE {} = %s").format(table, sql.Identifier(column)), [self.pipeline]
                    )

    def _name(self, sink: str) -> sql.Identifier:
        return sql.Identifier(self.pipeline, sink)
