"""The PostgreSQL sink without a server: the order of its statements, its shapes, what its errors hide."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from psycopg import errors as pg
from psycopg import sql

from effectively_once import digest
from effectively_once.errors import RefusedRowsError, SettingsError, SinkError
from effectively_once.sinks import postgres
from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.postgres import TableAddress, TableSink
from effectively_once.sinks.publish import FencedError, Published
from effectively_once.sinks.tables import Table, TableShape, refuse_other_shape

SHAPE = TableShape(pa.schema([("user", pa.string()), ("number", pa.int64())]))
UPSERT = TableShape(SHAPE.schema, key=("user",))
ADDRESS = TableAddress(DatabaseAddress("postgresql://db:5432/results"), "clicks", "counts", 1)
COLUMNS = {"user": "text", "number": "bigint"}
NAME = ("clicks", "counts")


def _table(*users: str) -> pa.Table:
    return pa.table({"user": users, "number": list(range(len(users)))}, SHAPE.schema)


class FakeSession:
    """One row of marks; remembers the first words of every statement."""

    def __init__(self, epoch: int, generation: int, digest: str = "other") -> None:
        self.mark = [epoch, generation, 0, digest]
        self.said: list[str] = []

    def execute(self, query: str | sql.Composed, values: dict[str, Any] | None = None) -> Any:
        text = query if isinstance(query, str) else query.as_string(None)
        self.said.append(" ".join(text.split()[:2]))
        changed = 1
        if values and "epoch" in values:
            changed = int(self.mark[0] == values["epoch"] - 1 and self.mark[1] <= values["generation"])
            if changed:
                self.mark = [values[name] for name in ("epoch", "generation", "rows", "digest")]
        elif values and "generation" in values:
            self.mark[1] = max(self.mark[1], values["generation"])
        return SimpleNamespace(rowcount=changed, fetchone=lambda: self.mark)

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        @contextmanager
        def copy(_: str) -> Iterator[Any]:
            self.said.append("COPY")
            yield SimpleNamespace(set_types=lambda _: None, write_row=lambda _: None)

        yield SimpleNamespace(copy=copy)

    def close(self) -> None:
        self.said.append("close")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    """A server whose shard was never published."""
    made = FakeSession(-1, 0)

    def connect(_address: object, _name: str, _patience_s: float, prepare: Any) -> FakeSession:
        prepare(made)
        return made

    monkeypatch.setattr(postgres, "connect", connect)
    monkeypatch.setattr(postgres, "look", lambda *_: Table(COLUMNS, keys=frozenset({frozenset({"user"})})))
    return made


def test_rows_are_staged_then_the_first_statement_takes_the_mark(session: FakeSession) -> None:
    """A kept session asks for nothing before; an epoch without rows is a mark alone."""
    sink = TableSink(ADDRESS, SHAPE)
    assert sink.publish(0, 1, _table("ann"))[1] is Published.NOW
    opened = ['UPDATE "effectively_once"."progress"', "CREATE TEMPORARY", "SELECT epoch,"]
    epoch = ["TRUNCATE pg_temp.staged", "COPY", "BEGIN", opened[0], "INSERT INTO", "COMMIT"]
    assert session.said == opened + epoch
    session.said.clear()
    sink.publish(1, 1, _table())
    assert session.said == ["BEGIN", opened[0], "COMMIT"]


def test_a_mark_that_stands_in_the_way_ends_in_a_rollback_and_tells_why(session: FakeSession) -> None:
    """Published meanwhile by somebody else: with these rows, with others; or a newer generation opened the shard."""
    sink = TableSink(ADDRESS, SHAPE)
    content, _ = sink.publish(0, 1, _table("ann"))
    session.mark = [1, 1, 1, content.digest]
    session.said.clear()
    assert sink.publish(1, 1, _table("ann"))[1] is Published.BEFORE
    assert session.said[-3:] == ['UPDATE "effectively_once"."progress"', "ROLLBACK", "SELECT epoch,"]
    sink._kept = None
    with pytest.raises(SinkError, match="epoch 1 is published with digest"):
        sink.publish(1, 1, _table("bob"))
    session.mark = [1, 5, 1, content.digest]
    with pytest.raises(FencedError, match="sink counts shard 1"):
        sink.publish(2, 4, _table("ann"))
    assert session.mark[:2] == [1, 5]


@pytest.mark.parametrize(
    ("epoch", "generation", "taken"),
    [(5, 2, True), (5, 3, True), (6, 2, False), (9, 2, False), (4, 2, False), (3, 9, False), (5, 1, False)],
)
def test_a_mark_is_taken_by_the_next_epoch_of_no_older_generation(epoch: int, generation: int, taken: bool) -> None:
    """The statements themselves, by another database: each is one `UPDATE` of the shard's own row."""
    database = sqlite3.connect(":memory:")
    database.create_function("greatest", 2, max)
    database.execute("ATTACH ':memory:' AS effectively_once")
    database.execute("CREATE TABLE effectively_once.progress (pipeline, sink, shard, epoch, generation, rows, digest)")

    def say(statement: sql.Composed, shard: int, **values: Any) -> Any:
        text = re.sub(r"%\((\w+)\)s", r":\1", statement.as_string(None))
        return database.execute(text, {"pipeline": "clicks", "sink": "counts", "shard": shard, **values})

    for shard in (0, 1):
        key = ("clicks", "counts", shard)
        database.execute("INSERT INTO effectively_once.progress VALUES (?, ?, ?, 4, 1, 7, 'd')", key)
    for raised in (2, 1):
        assert say(postgres._FENCE, 1, generation=raised).rowcount == 1
    assert say(postgres._READ, 1).fetchone() == (4, 2, 7, "d")
    ours = {"epoch": epoch, "generation": generation, "rows": 3, "digest": "e"}
    assert say(postgres._ADVANCE, 1, **ours).rowcount == int(taken)
    assert say(postgres._READ, 1).fetchone() == (tuple(ours.values()) if taken else (4, 2, 7, "d"))
    begun = epoch if epoch > 4 and not taken else 4
    assert say(postgres._BEGIN, 0, epoch=begun, digest="").rowcount == int(begun > 4)
    assert say(postgres._READ, 0).fetchone() == ((begun, 1, 0, "") if begun > 4 else (4, 1, 7, "d")), "another shard's"
    database.close()


def test_the_first_epoch_is_found_published_before(session: FakeSession) -> None:
    """Its number is 0, and -1 stands for no epoch at all."""
    session.mark = [0, 1, 2, digest.of_rows_in(_table("ann", "bob"))]
    assert TableSink(ADDRESS, SHAPE).publish(0, 1, _table("ann", "bob"))[1] is Published.BEFORE
    assert "BEGIN" not in session.said


@pytest.mark.parametrize(("shape", "ends"), [
    (SHAPE, 'SELECT "user", "number" FROM pg_temp.staged'),
    (UPSERT, 'ON CONFLICT ("user") DO UPDATE SET "number" = excluded."number"'),
    (TableShape(SHAPE.schema, key=("user", "number")), 'ON CONFLICT ("user", "number") DO NOTHING'),
])  # fmt: skip
def test_rows_are_appended_unless_a_key_is_declared(shape: TableShape, ends: str) -> None:
    """Append has no clause that could hide a double."""
    assert TableSink(ADDRESS, shape)._insert.as_string(None).endswith(ends)


def test_two_rows_of_one_key_are_refused(session: FakeSession) -> None:
    """In an upsert only, and before anything is sent."""
    with pytest.raises(SinkError, match=r"two rows of an epoch have one key \(user\)"):
        TableSink(ADDRESS, UPSERT).publish(0, 1, _table("ann", "ann"))
    assert session.said == []
    assert TableSink(ADDRESS, SHAPE).publish(0, 1, _table("ann", "ann"))[1] is Published.NOW


@pytest.mark.parametrize(
    ("fields", "key", "says"),
    [
        ([("a", pa.decimal128(5, 2))], (), r"columns that a table cannot have: a \(decimal128\(5, 2\)\)"),
        ([("a", pa.string())], ("b",), r"b \(not a column\)"),
        ([], (), "none at all"),
    ],
)
def test_a_shape_that_no_table_can_have_is_refused(fields: list[Any], key: tuple[str, ...], says: str) -> None:
    """When it is declared."""
    with pytest.raises(SettingsError, match=says):
        TableShape(pa.schema(fields), key)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (None, r"does not exist .table clicks\.counts"),
        (
            Table({"user": "text"}),
            r'lacks "number" bigint .*ALTER TABLE "clicks"\."counts" ADD COLUMN "number" bigint;',
        ),
        (Table({"user": "text", "number": "integer"}), "number is integer and must be bigint"),
        (Table({**COLUMNS, "x": "text"}, frozenset("x")), "x is required and not given"),
    ],
)
def test_a_table_that_rows_cannot_go_to_is_refused(found: Table | None, says: str) -> None:
    """With the way out."""
    with pytest.raises(SinkError, match=says):
        refuse_other_shape(SHAPE, found, NAME)


def test_a_table_that_rows_can_go_to_passes() -> None:
    """Columns that are required and given, and others that can be left out; the key of an upsert in any order."""
    refuse_other_shape(SHAPE, Table({**COLUMNS, "x": "text"}, frozenset({"user"})), NAME)
    both = TableShape(SHAPE.schema, key=("user", "number"))
    refuse_other_shape(both, Table(COLUMNS, keys=frozenset({frozenset({"number", "user"})})), NAME)
    with pytest.raises(SinkError, match=r"no unique key is \(user, number\)"):
        refuse_other_shape(both, Table(COLUMNS, keys=frozenset({frozenset({"user"})})), NAME)


@pytest.mark.parametrize(
    "url",
    ["postgresql://me:s3cret@db:5432/x", "postgres://db:5432/x", "postgresql://db/x", "postgresql://db:1/x?a=s3cret"],
)
def test_an_address_with_more_than_an_address_is_refused_and_not_repeated(url: str) -> None:
    """It may hold a password."""
    with pytest.raises(SettingsError, match=r"postgresql://host:port/database .*PGUSER and PGPASSWORD") as refused:
        DatabaseAddress(url)
    assert "s3cret" not in str(refused.value)
    assert "db" not in str(refused.value).split("host:port/database")[0]


def test_a_key_beyond_what_an_index_takes_is_refused_at_once_and_not_tried_again(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the client it is an operational error, as a lost connection is; no repeat would end otherwise."""

    def refuse(*_: Any) -> Any:
        raise pg.ProgramLimitExceeded('index row size 3016 exceeds btree version 4 maximum 2704 for index "i"')

    sink = TableSink(ADDRESS, SHAPE)
    sink.publish(0, 1, _table("ann"))
    session.said.clear()
    monkeypatch.setattr(session, "execute", refuse)
    with pytest.raises(RefusedRowsError, match="PostgreSQL refuses: index row size 3016 exceeds"):
        sink.publish(1, 1, _table("bob"))
    assert session.said == ["close"]
