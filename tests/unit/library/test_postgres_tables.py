"""The tables of PostgreSQL sinks without a server: how they are looked at and made, and when they are refused (R10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from psycopg import sql

from effectively_once import digest
from effectively_once.errors import SinkError
from effectively_once.sinks import tables
from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.tables import (
    MARKS,
    MARKS_SHAPE,
    Table,
    TableShape,
    check,
    comment_with,
    identity,
    look,
    make,
)

ADDRESS = DatabaseAddress("postgresql://db:5432/results")
SHAPE = TableShape(pa.schema([("user", pa.string()), ("number", pa.int64())]))
UPSERT = TableShape(SHAPE.schema, key=("user",))
LOCK = "SELECT pg_advisory_xact_lock(hashtext('effectively_once'))"
SEED = (
    'INSERT INTO "effectively_once"."progress" SELECT %s, %s, shard, -1, 0, 0, %s FROM generate_series(0, %s) AS shard '
    "ON CONFLICT DO NOTHING"
)


class Database:
    """Tables with their columns and comments, schemas and marks; notes what changes them."""

    def __init__(self) -> None:
        self.tables: dict[str, list[tuple[str, str, bool]]] = {}
        self.keys: dict[str, list[tuple[list[str]]]] = {}
        self.comments: dict[str, str] = {}
        self.schemas: set[str] = set()
        self.marks: tuple[int, int | None] | None = (0, None)
        self.said: list[str] = []
        self.values: list[Any] = []
        self.asked_for: tuple[Any, ...] = ()

    def with_table(self, name: Sequence[str], shape: TableShape) -> None:
        self.schemas.add(name[0])
        self.tables[".".join(name)] = [(column, kind, False) for column, kind in shape.types.items()]
        self.keys[".".join(name)] = [([*shape.key],)]

    def execute(self, query: str | sql.Composed, values: Sequence[Any] = ()) -> Any:
        text = " ".join((query if isinstance(query, str) else query.as_string(None)).split())
        rows: list[Any] = []
        match text.split()[:2]:
            case ["SELECT", "attname,"]:
                rows = self.tables.get(values[0], [])
            case ["SELECT", "array_agg(attname::text)"]:
                rows = self.keys.get(values[0], [])
            case ["SELECT", "oid::text,"]:
                rows = [("17", self.comments.get(values[0]))] if values[0] in self.tables else []
            case ["SELECT", "to_regnamespace(%s)"]:
                rows = [(values[0] not in self.schemas,)]
            case ["SELECT", "count(*),"]:
                assert [*values] == ["clicks", "counts"]
                rows = [self.marks] if self.marks else []
            case _:
                self._change(text)
                self.values.append([*values])
        return SimpleNamespace(fetchone=lambda: rows[0] if rows else None, fetchall=lambda: rows)

    def _change(self, text: str) -> None:
        self.said.append(text)
        if text.startswith("CREATE TABLE"):
            _, schema, _, table, *_ = text.split('"')
            self.with_table((schema, table), MARKS_SHAPE if (schema, table) == MARKS else UPSERT)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.said.append("begin")
        yield
        self.said.append("commit")


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database without any table."""
    made = Database()

    @contextmanager
    def connect(*asked: Any) -> Iterator[Database]:
        made.asked_for = asked
        yield made

    monkeypatch.setattr(tables, "connect", connect)
    return made


def test_a_table_is_described_as_the_server_tells_it(database: Database) -> None:
    assert look(database, ("clicks", "counts")) is None  # type: ignore[arg-type]
    database.tables["clicks.counts"] = [("user", "text", True), ("number", "bigint", False)]
    database.keys["clicks.counts"] = [(["user", "number"],), (["user"],)]
    assert look(database, ("clicks", "counts")) == Table(  # type: ignore[arg-type]
        {"user": "text", "number": "bigint"},
        frozenset({"user"}),
        frozenset({frozenset({"user", "number"}), frozenset({"user"})}),
    )


@pytest.mark.parametrize(
    ("comment", "is_"), [(None, "17"), ("of the sales team", "17"), ("effectively-once 0a1f", "0a1f")]
)
def test_a_table_is_known_by_the_id_in_its_comment_and_else_by_its_oid(
    comment: str | None, is_: str, database: Database
) -> None:
    """A dump that is restored keeps the first, a table that was made anew neither."""
    assert identity(database, ("clicks", "counts")) == ""  # type: ignore[arg-type]
    database.with_table(("clicks", "counts"), SHAPE)
    if comment is not None:
        database.comments["clicks.counts"] = comment
    assert identity(database, ("clicks", "counts")) == is_  # type: ignore[arg-type]
    assert check(ADDRESS, ("clicks", "counts"), SHAPE, 3.0) == is_
    assert database.asked_for == (ADDRESS, "check clicks.counts", 3.0)
    with pytest.raises(SinkError, match="lacks"):
        check(ADDRESS, ("clicks", "counts"), TableShape(pa.schema([("other", pa.string())])))


def test_the_id_of_a_table_is_found_again_in_the_comment_that_was_written() -> None:
    said = comment_with("0a1f", ("clicks", "counts")).as_string(None)
    assert said == """COMMENT ON TABLE "clicks"."counts" IS 'effectively-once 0a1f'"""


@pytest.mark.parametrize("shape", [SHAPE, UPSERT])
def test_tables_and_a_mark_for_each_shard_are_made_in_one_transaction(shape: TableShape, database: Database) -> None:
    told: list[str] = []
    make(ADDRESS, "clicks", "counts", shape, 3, patience_s=4.0, say=told.append)
    assert database.asked_for == (ADDRESS, "create clicks.counts", 4.0)
    assert (database.said[:2], database.said[-1]) == (["begin", LOCK], "commit"), (
        "two that make them wait for each other"
    )
    marks = (
        '"pipeline" text, "sink" text, "shard" integer, "epoch" bigint, "generation" bigint, "rows" bigint, '
        '"digest" text, PRIMARY KEY ("pipeline", "sink", "shard")'
    )
    rows = '"user" text, "number" bigint' + (', PRIMARY KEY ("user")' if shape.key else "")
    comments = [said for said in database.said if said.startswith("COMMENT")]
    assert [said for said in database.said[2:-2] if said not in comments] == [
        'CREATE SCHEMA "effectively_once"',
        f'CREATE TABLE "effectively_once"."progress" ({marks})',
        'CREATE SCHEMA "clicks"',
        f'CREATE TABLE "clicks"."counts" ({rows})',
    ]
    ids = [said.split("effectively-once ")[1] for said in comments]
    assert len({*ids}) == 2
    assert min(map(len, ids)) > 32
    assert database.said[-2] == SEED
    assert database.values[-1] == ["clicks", "counts", digest.EMPTY, 2]
    assert told == ["table clicks.counts is there, with marks of 3 shards"]


@pytest.mark.parametrize("marks", [(3, 8), (3, -1), (0, None), None])
def test_what_is_there_is_left_as_it_is(marks: tuple[int, int | None] | None, database: Database) -> None:
    database.with_table(MARKS, MARKS_SHAPE)
    database.with_table(("clicks", "counts"), SHAPE)
    database.marks = marks
    make(ADDRESS, "clicks", "counts", SHAPE, 3)
    assert database.said == ["begin", LOCK, SEED, "commit"]


def test_a_table_that_is_gone_is_made_only_where_nothing_was_published_into_it(database: Database) -> None:
    """Epoch 0 is one; a mark of -1 is none."""
    database.with_table(MARKS, MARKS_SHAPE)
    database.schemas.add("clicks")
    for last in (0, 8):
        database.marks = (3, last)
        with pytest.raises(
            SinkError, match=f"gone, and epochs up to {last} were published into it .table clicks.counts"
        ):
            make(ADDRESS, "clicks", "counts", SHAPE, 3)
    assert not any(said.startswith(("CREATE", "INSERT", "commit")) for said in database.said)
    database.marks = (3, -1)
    make(ADDRESS, "clicks", "counts", SHAPE, 3)
    created = [said for said in database.said if said.startswith("CREATE")]
    assert created == ['CREATE TABLE "clicks"."counts" ("user" text, "number" bigint)'], "its schema is there"


def test_another_number_of_shards_and_another_shape_are_refused(database: Database) -> None:
    database.with_table(MARKS, MARKS_SHAPE)
    database.with_table(("clicks", "counts"), SHAPE)
    database.marks = (2, 8)
    with pytest.raises(SinkError, match=r"marks of 2 shards, asked for are 3 \(sink counts of clicks\).*back to 2"):
        make(ADDRESS, "clicks", "counts", SHAPE, 3)
    database.marks = (3, 8)
    database.tables["clicks.counts"][1] = ("number", "integer", False)
    with pytest.raises(SinkError, match="number is integer and must be bigint"):
        make(ADDRESS, "clicks", "counts", SHAPE, 3)
    assert not any(said.startswith(("CREATE", "INSERT", "commit")) for said in database.said)
