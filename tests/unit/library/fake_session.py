"""A session of PostgreSQL in memory: what it was told, the mark of a shard, and rows that are staged and visible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from psycopg import sql

from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.postgres import TableAddress
from effectively_once.sinks.tables import TableShape

SHAPE = TableShape(pa.schema([("user", pa.string()), ("number", pa.int64())]))
UPSERT = TableShape(SHAPE.schema, key=("user",))
ADDRESS = TableAddress(DatabaseAddress("postgresql://db:5432/results"), "clicks", "counts", 1)
COLUMNS = {"user": "text", "number": "bigint"}
NAME = ("clicks", "counts")


def table_of(*users: str) -> pa.Table:
    return pa.table({"user": users, "number": list(range(len(users)))}, SHAPE.schema)


class FakeSession:
    """One row of marks; remembers the first words of every statement, and what became visible."""

    def __init__(self, epoch: int, generation: int, digest: str = "other") -> None:
        self.mark: list[Any] | None = [epoch, generation, 0, digest]
        self.said: list[str] = []
        self.asked: list[tuple[DatabaseAddress, str, float]] = []
        self.staged: list[Any] = []
        self.inserted: list[Any] = []
        self.visible: list[Any] = []
        self.types: list[str] = []

    def execute(self, query: str | sql.Composed, values: dict[str, Any] | None = None) -> Any:
        text = query if isinstance(query, str) else query.as_string(None)
        self.said.append(" ".join(text.split()[:2]))
        self._rows(text)
        if "%(" in text:
            assert values is not None
            assert values.items() >= ADDRESS.key.items(), "another shard's"
        changed = 1
        if self.mark is None:
            changed = 0
        elif values and "epoch" in values and "generation" not in values:
            if self.mark[0] < values["epoch"]:
                self.mark = [values["epoch"], self.mark[1], 0, values["digest"]]
        elif values and "epoch" in values:
            changed = int(self.mark[0] == values["epoch"] - 1 and self.mark[1] <= values["generation"])
            if changed:
                self.mark = [values[name] for name in ("epoch", "generation", "rows", "digest")]
        elif values and "generation" in values:
            self.mark[1] = max(self.mark[1], values["generation"])
        return SimpleNamespace(rowcount=changed, fetchone=lambda: self.mark)

    def _rows(self, text: str) -> None:
        if text.startswith("TRUNCATE"):
            self.staged = []
        elif text.startswith("INSERT"):
            self.inserted = self.staged
        elif text == "COMMIT":
            self.visible, self.inserted = self.visible + self.inserted, []

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        @contextmanager
        def copy(statement: str) -> Iterator[Any]:
            assert statement == "COPY pg_temp.staged FROM STDIN (FORMAT BINARY)"
            self.said.append("COPY")
            yield SimpleNamespace(set_types=self.types.extend, write_row=self.staged.append)

        yield SimpleNamespace(copy=copy)

    def close(self) -> None:
        self.said.append("close")
