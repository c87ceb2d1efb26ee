"""Tables of a PostgreSQL sink and their marks, made and checked without a server: nothing that is there is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from psycopg import OperationalError, sql

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger import digest
from effectively_once.sinks import tables
from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.tables import Table, TableShape, check, identity, look, make

DATABASE = DatabaseAddress("postgresql://db:5432/results")
SHAPE = TableShape(pa.schema([("user", pa.string()), ("number", pa.int64())]))
UPSERT = TableShape(SHAPE.schema, key=("user", "number"))
NAME = ("clicks", "counts")
COLUMNS = {"user": "text", "number": "bigint"}
MARKED = {
    "pipeline": "text",
    "sink": "text",
    "shard": "integer",
    "epoch": "bigint",
    "generation": "bigint",
    "rows": "bigint",
    "digest": "text",
}
NEW = (-1, 0, 0, digest.EMPTY)


class Server:
    """What `make` and `check` ask of a database; a statement that it would refuse fails."""

    def __init__(self) -> None:
        self.schemas: set[str] = set()
        self.columns: dict[str, dict[str, str]] = {}
        self.required: set[str] = set()
        self.keys: dict[str, list[list[str]]] = {}
        self.comments: dict[str, str] = {}
        self.marks: dict[tuple[str, str, int], tuple[int, int, int, str]] = {}

    def answered(self, text: str, values: Any) -> list[tuple[Any, ...]]:
        """Carry out a statement."""
        if "FROM pg_attribute" in text:
            return [(name, kind, name in self.required) for name, kind in self.columns.get(values[0], {}).items()]
        if "FROM pg_index" in text:
            return [(key,) for key in self.keys.get(values[0], [])]
        if "FROM pg_class" in text:
            return [("4711", self.comments.get(values[0]))] if values[0] in self.columns else []
        if text.startswith("SELECT to_regnamespace"):
            return [(values[0] not in self.schemas,)]
        if text.startswith("SELECT count(*)"):
            found = [mark[0] for (*sink, _), mark in self.marks.items() if sink == [*values]]
            return [(len(found), max(found, default=None))]
        self.changed(text.replace('"', ""), values)
        return []

    def changed(self, text: str, values: Any) -> None:
        """Make or seed something."""
        if made := re.fullmatch(r"CREATE SCHEMA (\w+)", text):
            assert made[1] not in self.schemas
            self.schemas.add(made[1])
        elif made := re.fullmatch(r"CREATE TABLE (\w+)\.(\w+) \((.*?)(?:, PRIMARY KEY \((.*)\))?\)", text):
            name = f"{made[1]}.{made[2]}"
            assert made[1] in self.schemas
            assert name not in self.columns
            self.columns[name] = dict(column.split(" ", 1) for column in made[3].split(", "))
            self.keys[name] = [made[4].split(", ")] if made[4] else []
        elif made := re.fullmatch(r"COMMENT ON TABLE (\S+) IS '(.*)'", text):
            self.comments[made[1]] = made[2]
        elif text.startswith("INSERT INTO effectively_once.progress SELECT %s, %s, shard, -1, 0, 0, %s FROM"):
            pipeline, sink, empty, last = values
            for shard in range(last + 1):
                self.marks.setdefault((pipeline, sink, shard), (-1, 0, 0, empty))
        else:
            raise AssertionError(text)


class Session:
    """Refuses what is not asked in a transaction that took the lock, if it changes something."""

    def __init__(self, server: Server) -> None:
        self.server, self.locked, self.lost = server, False, False

    def execute(self, query: str | sql.Composed, values: Any = None) -> Any:
        text = query if isinstance(query, str) else query.as_string(None)
        if self.lost:
            raise OperationalError("gone")
        if "pg_advisory_xact_lock" in text:
            assert text == "SELECT pg_advisory_xact_lock(hashtext('effectively_once'))"
            self.locked = True
            return None
        assert self.locked or text.strip().startswith("SELECT")
        found = self.server.answered(text, values)
        return SimpleNamespace(fetchall=lambda: found, fetchone=lambda: found[0] if found else None)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        before = deepcopy(vars(self.server))
        try:
            yield
        except BaseException:
            vars(self.server).update(before)
            raise
        finally:
            self.locked = False


@pytest.fixture
def asked() -> list[Any]:
    """Sessions that were asked for."""
    return []


@pytest.fixture
def session(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> Session:
    """A server without any table."""
    made = Session(Server())

    @contextmanager
    def connect(address: DatabaseAddress, name: str, patience_s: float) -> Iterator[Session]:
        asked.append((address, name, patience_s))
        yield made

    monkeypatch.setattr(tables, "connect", connect)
    return made


def test_a_table_and_a_mark_for_each_shard_are_made_once(session: Session, asked: list[Any]) -> None:
    """Again, nothing changes: neither marks that went on nor the identity of the table."""
    server, said = session.server, list[str]()
    make(DATABASE, *NAME, UPSERT, 3, patience_s=7.0, say=said.append)
    assert server.columns["clicks.counts"] == COLUMNS
    assert server.keys["clicks.counts"] == [["user", "number"]]
    assert server.columns["effectively_once.progress"] == MARKED
    assert server.keys["effectively_once.progress"] == [["pipeline", "sink", "shard"]]
    assert server.marks == {(*NAME, shard): NEW for shard in range(3)}
    assert said == ["table clicks.counts is there, with marks of 3 shards"]
    assert asked == [(DATABASE, "create clicks.counts", 7.0)]
    ids = {said.removeprefix("effectively-once ") for said in server.comments.values()}
    assert (len(ids), min(map(len, ids))) == (2, 32), "an identity of its own for each table"
    server.marks[*NAME, 1] = (4, 1, 9, "d")
    before = deepcopy(vars(server))
    make(DATABASE, *NAME, UPSERT, 3)
    assert vars(server) == before
    make(DATABASE, "clicks", "late", SHAPE, 1)
    assert server.keys["clicks.late"] == []
    assert {key: mark for key, mark in server.marks.items() if key[1] == "late"} == {("clicks", "late", 0): NEW}
    assert server.marks[*NAME, 1] == (4, 1, 9, "d")


@pytest.mark.parametrize("shards", [1, 3])
def test_of_another_number_of_shards_marks_are_added_and_none_is_removed(shards: int, session: Session) -> None:
    """The epoch that is declared has the former number, and a shard that is no more may come back."""
    make(DATABASE, *NAME, SHAPE, 2)
    session.server.marks[*NAME, 1] = (4, 1, 9, "d")
    make(DATABASE, *NAME, SHAPE, shards)
    marks = {shard: mark for (_, _, shard), mark in session.server.marks.items()}
    assert marks == {0: NEW, 1: (4, 1, 9, "d"), **({2: NEW} if shards == 3 else {})}


@pytest.mark.parametrize("last", [-1, 0, 5])
def test_a_table_that_rows_went_to_is_not_made_anew(last: int, session: Session) -> None:
    """Its marks say that they are there. Without an epoch nothing is lost."""
    make(DATABASE, *NAME, SHAPE, 2)
    session.server.marks[*NAME, 1] = (last, 1, 0, "d")
    del session.server.columns["clicks.counts"]
    if last < 0:
        make(DATABASE, *NAME, SHAPE, 2)
        assert "clicks.counts" in session.server.columns
        return
    with pytest.raises(SinkError, match=f"gone, and epochs up to {last} were published into it .table clicks.counts"):
        make(DATABASE, *NAME, SHAPE, 2)
    assert "clicks.counts" not in session.server.columns


@pytest.mark.parametrize("name", ["clicks.counts", "effectively_once.progress"])
def test_a_table_of_another_shape_is_refused_and_left(name: str, session: Session) -> None:
    session.server.schemas = {"clicks", "effectively_once"}
    session.server.columns[name] = {"other": "text"}
    before = deepcopy(vars(session.server))
    with pytest.raises(SinkError, match=rf"the table lacks .*table {name}.*ADD COLUMN \S+ \w+, ADD COLUMN"):
        make(DATABASE, *NAME, SHAPE, 2)
    assert vars(session.server) == before


def test_a_table_is_checked_and_tells_whether_it_is_the_one_that_was_made(session: Session, asked: list[Any]) -> None:
    """Made anew, it has another identity; a dump keeps it, whatever else was said of the table."""
    with pytest.raises(SinkError, match=r"the table does not exist .table clicks\.counts"):
        check(DATABASE, NAME, SHAPE)
    server, identities = session.server, set[str]()
    for _ in range(2):
        make(DATABASE, *NAME, UPSERT, 2)
        identities.add(check(DATABASE, NAME, UPSERT, 7.0))
        assert asked[-1] == (DATABASE, "check clicks.counts", 7.0)
        said = server.comments["clicks.counts"]
        server.comments["clicks.counts"] = f"Ours.\n{said}, do not drop"
        assert check(DATABASE, NAME, UPSERT) == said.split()[-1]
        server.comments["clicks.counts"] = "of the sales team"
        assert check(DATABASE, NAME, UPSERT) == "4711"
        server.comments.pop("clicks.counts")
        assert check(DATABASE, NAME, UPSERT) == "4711"
        server.columns.pop("clicks.counts")
    assert len(identities) == 2
    server.columns["clicks.counts"] = {**COLUMNS, "x": "text"}
    assert check(DATABASE, NAME, SHAPE) == "4711"
    server.required = {"x"}
    with pytest.raises(SinkError, match="x is required and not given"):
        check(DATABASE, NAME, SHAPE)


def test_a_table_is_described_as_the_server_tells_it(session: Session) -> None:
    asking: Any = session
    assert (look(asking, NAME), identity(asking, NAME)) == (None, "")
    server = session.server
    server.columns["clicks.counts"], server.required = COLUMNS, {"user"}
    server.keys["clicks.counts"] = [["user", "number"], ["user"]]
    keys = frozenset({frozenset({"user", "number"}), frozenset({"user"})})
    assert look(asking, NAME) == Table(COLUMNS, frozenset({"user"}), keys)


def test_a_server_that_goes_meanwhile_is_named(session: Session) -> None:
    session.lost = True
    for asking in (lambda: make(DATABASE, *NAME, SHAPE, 2), lambda: check(DATABASE, NAME, SHAPE)):
        with pytest.raises(UnreachableError, match=r"gone .table clicks\.counts at postgresql://db:5432/results"):
            asking()
