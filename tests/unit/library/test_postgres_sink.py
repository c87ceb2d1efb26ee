"""The PostgreSQL sink without a server: the order of its statements, its shapes, what its errors hide."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import errors as pg
from psycopg import sql

from effectively_once.errors import AccessError, RefusedRowsError, SettingsError, SinkError, UnreachableError
from effectively_once.ledger import digest, former_digest
from effectively_once.sinks import dry_run, postgres
from effectively_once.sinks.database import PATIENCE_S, DatabaseAddress
from effectively_once.sinks.postgres import TableSink, read_mark
from effectively_once.sinks.publish import FencedError, Mark, Published
from effectively_once.sinks.tables import Table, TableShape, refuse_other_shape
from tests.unit.library.fake_session import ADDRESS, COLUMNS, NAME, SHAPE, UPSERT, FakeSession, table_of


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    """A server whose shard was never published."""
    made = FakeSession(-1, 0)

    def connect(
        address: DatabaseAddress, name: str, patience_s: float, prepare: Callable[[Any], object] = lambda _: None
    ) -> FakeSession:
        made.asked.append((address, name, patience_s))
        prepare(made)
        return made

    def look(on: Any, name: Any) -> Table:
        assert (on, name) == (made, NAME)
        return Table(COLUMNS, keys=frozenset({frozenset({"user"})}))

    monkeypatch.setattr(postgres, "connect", connect)
    monkeypatch.setattr(postgres, "look", look)
    return made


def test_rows_are_staged_then_the_first_statement_takes_the_mark(session: FakeSession) -> None:
    """A kept session asks for nothing before; an epoch without rows is a mark alone."""
    sink = TableSink(ADDRESS, SHAPE)
    content, published = sink.publish(0, 1, rows := table_of("ann"))
    assert published is Published.NOW
    assert (content.rows, content.bytes, content.digest) == (1, rows.nbytes, digest.of_rows_in(rows))
    assert session.mark == [0, 1, 1, content.digest]
    opened = ['UPDATE "effectively_once"."progress"', "CREATE TEMPORARY", "SELECT epoch,"]
    epoch = ["TRUNCATE pg_temp.staged", "COPY", "BEGIN", opened[0], "INSERT INTO", "COMMIT"]
    assert session.said == opened + epoch
    session.said.clear()
    sink.publish(1, 1, table_of())
    assert session.said == ["BEGIN", opened[0], "COMMIT"]
    sink.publish(2, 1, table_of("bob", "cid"))
    assert session.visible == [("ann", 0), ("bob", 0), ("cid", 1)]
    assert session.types[:2] == ["text", "bigint"]
    assert session.asked == [(ADDRESS.database, "clicks.counts.1", PATIENCE_S)]


def test_the_transaction_is_announced_when_nothing_of_it_is_visible_yet(session: FakeSession) -> None:
    seen: list[tuple[str, str, int]] = []
    sink = TableSink(ADDRESS, SHAPE, lambda what: seen.append((what, session.said[-1], len(session.visible))), 7.0)
    sink.publish(0, 1, table_of("ann", "bob"))
    assert seen == [("transaction_open", "INSERT INTO", 0), ("committed", "COMMIT", 2)]
    assert session.asked == [(ADDRESS.database, "clicks.counts.1", 7.0)]


def test_of_a_commit_without_an_answer_a_new_session_asks_the_mark(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it took place or not, its rows are visible once."""
    sink, execute = TableSink(ADDRESS, SHAPE), session.execute
    for epoch, lost in enumerate(("COMMIT", "BEGIN")):

        def lose(query: Any, values: Any = None, lost: str = lost) -> Any:
            found = execute(query, values)
            if query == lost:
                monkeypatch.setattr(session, "execute", execute)
                raise psycopg.OperationalError("gone")
            return found

        monkeypatch.setattr(session, "execute", lose)
        published = sink.publish(epoch, 1, table_of(f"u{epoch}"))[1]
        assert published is (Published.BEFORE if lost == "COMMIT" else Published.NOW)
    assert session.visible == [("u0", 0), ("u1", 0)]
    assert len(session.asked) == 4


def test_a_shard_that_is_new_to_a_chain_begins_after_its_last_epoch(session: FakeSession) -> None:
    """A gap that is lawful; asked again it has its mark, and one that is further stays."""
    sink = TableSink(ADDRESS, SHAPE)
    for _ in range(2):
        sink.begin(6, 3)
        assert session.mark == [6, 3, 0, digest.EMPTY]
    session.said.clear()
    assert sink.publish(7, 3, table_of("ann"))[1] is Published.NOW
    assert session.said.count("SELECT epoch,") == 1, "what was begun is no commit of this session"
    sink.begin(6, 3)
    assert session.mark is not None
    assert session.mark[0] == 7


def test_a_mark_is_read_by_a_session_of_its_own_and_disturbs_nobody(session: FakeSession) -> None:
    """Before the first epoch there is none; a row that is missing is another thing."""
    assert read_mark(ADDRESS, 7.0) is None
    session.mark = [0, 1, 2, "d"]
    assert read_mark(ADDRESS) == Mark(0, 1, 2, "d")
    assert session.said == ["SELECT epoch,", "close"] * 2
    name = "mark of sink counts shard 1"
    assert session.asked == [(ADDRESS.database, name, 7.0), (ADDRESS.database, name, PATIENCE_S)]
    session.mark = None
    for ask in (lambda: read_mark(ADDRESS), lambda: TableSink(ADDRESS, SHAPE).publish(0, 1, table_of("ann"))):
        with pytest.raises(
            SinkError, match=r"no progress mark .sink counts shard 1 in table effectively_once\.progress"
        ):
            ask()
    assert "BEGIN" not in session.said


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A trial that refuses the second row, or fails with what is here; it tells here what it tried."""
    told: list[Any] = []

    def trial(on: Any, name: Any, shape: TableShape, insert: Any, rows: Any) -> dict[int, str]:
        assert (type(on), insert(sql.SQL("some rows")).as_string(None)[-9:]) == (FakeSession, "some rows")
        if told and isinstance(told[0], Exception):
            raise told.pop(0)
        told.append((name, shape, list(rows)))
        return {1: "a constraint"}

    monkeypatch.setattr(dry_run, "find_refused", trial)
    return told


def test_rows_are_tried_in_the_session_that_is_there(session: FakeSession, tried: list[Any]) -> None:
    """None is opened but the first, by which no older generation commits any more."""
    sink, trial = TableSink(ADDRESS, SHAPE), (NAME, SHAPE, [("ann", 0), ("bob", 1)])
    for _ in range(2):
        assert sink.find_refused(4, table_of("ann", "bob")) == {1: "a constraint"}
    assert tried == [trial, trial]
    assert (len(session.asked), session.mark) == (1, [-1, 4, 0, "other"])
    with pytest.raises(SinkError, match="the job gives columns"):
        sink.find_refused(4, table_of("ann").select(["user"]))
    assert tried == [trial, trial]


def test_a_session_that_was_lost_before_a_trial_is_opened_anew_once(session: FakeSession, tried: list[Any]) -> None:
    """What it had committed is asked for again: somebody else may have come in between."""
    sink = TableSink(ADDRESS, SHAPE)
    sink.publish(0, 1, table_of("ann"))
    tried.append(psycopg.OperationalError("gone"))
    assert sink.find_refused(1, table_of("ann", "bob")) == {1: "a constraint"}
    assert (len(session.asked), session.said.count("close")) == (2, 1)
    session.said.clear()
    assert sink.publish(1, 1, table_of("bob"))[1] is Published.NOW
    assert "SELECT epoch," in session.said
    tried[:] = [psycopg.OperationalError("gone"), psycopg.OperationalError("gone again")]
    with pytest.raises(UnreachableError, match=r"gone again .table clicks\.counts at postgresql://db:5432/results"):
        sink.find_refused(1, table_of("ann"))
    assert sink.publish(2, 1, table_of("cid"))[1] is Published.NOW


def test_a_trial_that_no_new_session_helps_is_not_repeated(session: FakeSession, tried: list[Any]) -> None:
    sink = TableSink(ADDRESS, SHAPE)
    sink.publish(0, 1, table_of("ann"))
    tried.append(pg.InsufficientPrivilege("no right"))
    with pytest.raises(AccessError, match=r"no right .table clicks\.counts at postgresql://db:5432/results"):
        sink.find_refused(1, table_of("ann"))
    assert (len(session.asked), session.said[-1], tried) == (1, "close", [])


def test_a_mark_that_stands_in_the_way_ends_in_a_rollback_and_tells_why(session: FakeSession) -> None:
    """Published meanwhile by somebody else: with these rows, with others; or a newer generation opened the shard."""
    sink = TableSink(ADDRESS, SHAPE)
    content, _ = sink.publish(0, 1, table_of("ann"))
    session.mark = [1, 1, 1, content.digest]
    session.said.clear()
    assert sink.publish(1, 1, table_of("ann"))[1] is Published.BEFORE
    assert session.said[-3:] == ['UPDATE "effectively_once"."progress"', "ROLLBACK", "SELECT epoch,"]
    sink._kept = None
    with pytest.raises(SinkError, match="epoch 1 is published with digest"):
        sink.publish(1, 1, table_of("bob"))
    session.mark = [1, 5, 1, content.digest]
    with pytest.raises(FencedError, match="sink counts shard 1"):
        sink.publish(2, 4, table_of("ann"))
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


@pytest.mark.parametrize("version", [digest, former_digest], ids=["this version", "an older one"])
def test_the_first_epoch_is_found_published_before_by_the_digest_of_whoever_did(
    version: Any, session: FakeSession
) -> None:
    """Its number is 0, and -1 stands for no epoch at all."""
    session.mark = [0, 1, 2, version.of_rows_in(table_of("ann", "bob"))]
    assert TableSink(ADDRESS, SHAPE).publish(0, 1, table_of("ann", "bob"))[1] is Published.BEFORE
    assert "BEGIN" not in session.said
    with pytest.raises(SinkError, match="epoch 0 is published with digest"):
        TableSink(ADDRESS, SHAPE).publish(0, 1, table_of("ann", "cid"))


def test_a_decimal_has_its_digits_in_the_table_and_none_in_what_a_copy_is_told() -> None:
    """The client knows types by name, and of one with digits nothing."""
    shape = TableShape(pa.schema([("price", pa.decimal128(12, 2)), ("user", pa.string())]))
    assert (shape.types, shape.copy_types) == ({"price": "numeric(12,2)", "user": "text"}, ["numeric", "text"])


def test_rows_are_staged_in_a_table_of_the_sinks_columns(session: FakeSession) -> None:
    statement = postgres._staging_table(ADDRESS, SHAPE).as_string(None)
    of_ours = 'AS SELECT "user", "number" FROM "clicks"."counts" WITH NO DATA'
    assert statement == f"CREATE TEMPORARY TABLE staged {of_ours}"


@pytest.mark.parametrize(
    ("key", "then"),
    [
        ((), ""),
        (("user",), ' ON CONFLICT ("user") DO UPDATE SET "number" = excluded."number", "at" = excluded."at"'),
        (("user", "number", "at"), ' ON CONFLICT ("user", "number", "at") DO NOTHING'),
    ],
)
def test_rows_are_appended_unless_a_key_is_declared(key: tuple[str, ...], then: str) -> None:
    """Append has no clause that could hide a double."""
    shape = TableShape(SHAPE.schema.append(pa.field("at", pa.int64())), key)
    append = 'INSERT INTO "clicks"."counts" ("user", "number", "at") SELECT "user", "number", "at" FROM pg_temp.staged'
    assert TableSink(ADDRESS, shape)._insert.as_string(None) == append + then


def test_two_rows_of_one_key_are_refused(session: FakeSession) -> None:
    """In an upsert only, and before anything is sent."""
    with pytest.raises(SinkError, match=r"two rows of an epoch have one key \(user\)"):
        TableSink(ADDRESS, UPSERT).publish(0, 1, table_of("ann", "ann"))
    assert session.said == []
    assert TableSink(ADDRESS, UPSERT).publish(0, 1, table_of("ann", "bob"))[1] is Published.NOW
    assert TableSink(ADDRESS, SHAPE).publish(1, 1, table_of("ann", "ann"))[1] is Published.NOW


@pytest.mark.parametrize("other", [("name", pa.string()), ("user", pa.binary())])
def test_rows_of_another_shape_are_refused(other: tuple[str, pa.DataType], session: FakeSession) -> None:
    """One name or one type suffices, and nothing is sent."""
    rows = pa.table({other[0]: ["a"], "number": [1]}, pa.schema([other, SHAPE.schema.field("number")]))
    with pytest.raises(SinkError, match=r"the job gives columns .*, the sink was declared with"):
        TableSink(ADDRESS, SHAPE).publish(0, 1, rows)
    assert session.said == []


def test_a_server_that_goes_while_a_mark_is_asked_or_begun_is_named(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, execute = TableSink(ADDRESS, SHAPE), session.execute

    def lose(query: Any, values: Any = None) -> Any:
        if query in (postgres._READ, postgres._BEGIN):
            raise psycopg.OperationalError("gone")
        return execute(query, values)

    monkeypatch.setattr(session, "execute", lose)
    table = r"table clicks\.counts at "
    for asking, where in (
        (lambda: sink.publish(0, 1, table_of("ann")), table),
        (lambda: sink.begin(6, 3), table),
        (lambda: read_mark(ADDRESS), ""),
    ):
        with pytest.raises(UnreachableError, match=rf"gone .{where}postgresql://db:5432/results"):
            asking()


@pytest.mark.parametrize(
    ("fields", "key", "says"),
    [
        ([("a", pa.decimal256(5, 2))], (), r"columns that a table cannot have: a \(decimal256\(5, 2\)\)"),
        ([("a", pa.decimal128(9, -2))], (), r"a \(decimal128\(9, -2\)\)"),
        ([("a", pa.decimal128(2, 5))], (), r"a \(decimal128\(2, 5\)\)"),
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
    sink.publish(0, 1, table_of("ann"))
    session.said.clear()
    monkeypatch.setattr(session, "execute", refuse)
    with pytest.raises(RefusedRowsError, match="PostgreSQL refuses: index row size 3016 exceeds"):
        sink.publish(1, 1, table_of("bob"))
    assert session.said == ["close"]
