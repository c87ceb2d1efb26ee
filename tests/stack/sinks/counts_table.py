"""A table that counts of users are appended to, as the tests of the PostgreSQL sink ask for it."""

from __future__ import annotations

import psycopg
import pyarrow as pa

from effectively_once.sinks.postgres import TableAddress, TableSink
from effectively_once.sinks.tables import TableShape
from tests.stack.sinks.adapter import PATIENCE_S
from tests.stack.sinks.servers import Servers

COUNTS = TableShape(pa.schema([("user", pa.string()), ("number", pa.int64())]))
LATEST = TableShape(COUNTS.schema, key=("user",))


def as_owner(servers: Servers) -> psycopg.Connection:
    return servers.postgres.connect()


def counts(*rows: tuple[str, int]) -> pa.Table:
    return pa.table({"user": [user for user, _ in rows], "number": [n for _, n in rows]}, COUNTS.schema)


def rows_of(servers: Servers, address: TableAddress) -> list[tuple[object, ...]]:
    with as_owner(servers) as owner:
        return sorted(owner.execute(f"SELECT * FROM {'.'.join(address.table)}").fetchall())  # noqa: S608


def sink_of(address: TableAddress, shape: TableShape = COUNTS) -> TableSink:
    return TableSink(address, shape, patience_s=PATIENCE_S)
