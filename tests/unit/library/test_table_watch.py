"""Tables are asked before each epoch what was added to them; what no trial can tell is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import errors as pg

from effectively_once import Count, Pipeline, Stateful, ToFiles, ToKafka, ToTable, Windowed
from effectively_once.driver import table_watch
from effectively_once.driver.table_watch import TableWatch
from effectively_once.epoch import rows
from effectively_once.epoch.refusals import shard_columns
from effectively_once.errors import AccessError, SinkError, UnreachableError
from effectively_once.pipeline.job import Job
from effectively_once.sinks.constraints import Added, AskedTable
from tests.settings import pipeline_settings
from tests.unit.library.broken_epochs import broken
from tests.unit.library.orders_world import TOPIC
from tests.unit.library.test_repair_by_driver import declare, planning

COLUMNS = pa.schema([("user", pa.string()), ("amount", pa.int64())])
ORDERS = Pipeline(
    lambda frame: frame,
    COLUMNS,
    rows=(ToKafka("accepted"), ToTable("orders"), ToFiles("archive")),
    windows=(Windowed("user", {"n": Count()}, ToTable("per_user")),),
)
SESSIONS = Stateful(lambda frame: frame, pa.schema([("user", pa.string())]), by="user", to=ToTable("sessions"))
STATEFUL = replace(ORDERS, windows=(), stateful=SESSIONS)
CHECK = Added(all=("constraint positive",))
ONCE = Added(all=("unique index orders.once",), beyond=("unique index orders.once",))
HEAD = Added(all=("constraint head",), refers=("constraint head",))


class Database:
    """What its catalog says of each table, and who asked."""

    def __init__(self, **tables: Added) -> None:
        self.tables, self.asked = tables, list[AskedTable]()
        self.opened = 0
        self.fails: list[psycopg.Error] = []

    def connect(self, *_: Any) -> Any:
        self.opened += 1
        return self

    def close(self) -> None:
        """Nothing is open."""

    def added(self, session: Any, asked: AskedTable) -> Added:
        assert session is self
        if self.fails:
            raise self.fails.pop()
        self.asked.append(asked)
        found: Added = self.tables.get(asked.name[1], Added())
        return found


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    made = Database()
    monkeypatch.setattr(table_watch, "connect", made.connect)
    monkeypatch.setattr(table_watch, "find_added", made.added)
    return made


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "judge_each", lambda _, read: read(None))


def watch(pipeline: Pipeline = ORDERS, *trusted: str, shards: int = 2) -> TableWatch:
    settings = pipeline_settings(
        pipeline="shop", database="postgresql://h:1/d", shards=shards, trusted_constraints=trusted, **pipeline.defaults
    )
    return TableWatch(Job(pipeline, settings))


def test_tables_with_constraints_are_tried_and_others_are_not(database: Database) -> None:
    assert watch().find_tried() == ()
    database.tables = {"per_user": CHECK}
    assert watch().find_tried() == ("per_user",)
    assert [(one.name, one.by, one.others, one.shards) for one in database.asked[-2:]] == [
        (("shop", "orders"), ("id",), (("shop", "per_user"),), 2),
        (("shop", "per_user"), ("user",), (("shop", "orders"),), 2),
    ]


def test_without_tables_no_database_is_asked(database: Database) -> None:
    bare = Pipeline(lambda frame: frame, COLUMNS, rows=(ToKafka("accepted"),))
    assert watch(bare).find_tried() == ()
    assert database.opened == 0


@pytest.mark.parametrize("found", [ONCE, HEAD])
def test_what_no_trial_can_tell_is_refused_by_name_unless_somebody_answers_for_it(
    database: Database, found: Added
) -> None:
    database.tables = {"orders": found}
    (what,) = found.all
    with pytest.raises(SinkError, match=f"no trial of its rows can tell what the table refuses: {what}") as refused:
        watch().find_tried()
    assert f'"orders: {what}"' in refused.value.todo
    assert refused.value.where == "table shop.orders"
    # Rows of the table that is referred to are not there yet when rows are tried.
    assert watch(ORDERS, f"orders: {what}").find_tried() == (() if found.refers else ("orders",))
    with pytest.raises(SinkError):
        watch(ORDERS, f"per_user: {what}").find_tried()


def test_of_a_table_whose_rows_are_known_too_late_everything_is_refused(database: Database) -> None:
    database.tables = {"sessions": CHECK}
    with pytest.raises(SinkError, match="constraint positive"):
        watch(STATEFUL).find_tried()
    assert watch(STATEFUL, "sessions: constraint positive").find_tried() == ()


def test_it_is_asked_before_each_epoch_by_one_session(database: Database) -> None:
    asks = watch()
    assert asks.find_tried() == ()
    database.tables = {"orders": CHECK}
    assert asks.find_tried() == ("orders",)
    database.tables = {"orders": ONCE}
    with pytest.raises(SinkError):
        asks.find_tried()
    assert database.opened == 1


def test_a_session_that_ended_meanwhile_is_opened_anew_and_a_refusal_is_named(database: Database) -> None:
    asks = watch()
    asks.find_tried()
    database.fails = [psycopg.OperationalError("terminating connection due to administrator command")]
    assert asks.find_tried() == ()
    assert database.opened == 2
    database.fails = [pg.InsufficientPrivilege("permission denied")]
    with pytest.raises(AccessError):
        asks.find_tried()
    database.fails = [psycopg.OperationalError("gone"), psycopg.OperationalError("gone")]
    with pytest.raises(UnreachableError):
        asks.find_tried()


@pytest.mark.parametrize(
    ("pipeline", "table", "by"),
    [
        (ORDERS, "orders", ("id",)),
        (replace(ORDERS, ids="coordinates"), "orders", ("topic", "partition", "offset")),
        (ORDERS, "per_user", ("user",)),
        (STATEFUL, "sessions", ("user",)),
    ],
)
def test_rows_are_sharded_by_what_their_step_brings_them_together_by(
    pipeline: Pipeline, table: str, by: tuple[str, ...]
) -> None:
    assert shard_columns(pipeline, table) == by


def test_a_driver_pins_for_each_epoch_what_it_finds_then() -> None:
    """A constraint that came after its start is tried from the next declaration on."""
    world = broken(2, part=lambda _, rows: rows)
    started = planning(world, lambda _: None)
    end = started.head.tail[-1].ranges[TOPIC]["0"][1]
    world.tried = ("orders",)
    assert declare(started, {TOPIC: {"0": (end, end + 5)}}).tried == ("orders",)


def test_what_is_refused_is_refused_before_anything_is_declared() -> None:
    world = broken(2, part=lambda _, rows: rows)
    started = planning(world, lambda _: None)
    end = started.head.tail[-1].ranges[TOPIC]["0"][1]

    def refuse() -> tuple[str, ...]:
        raise SinkError("no trial of its rows can tell", "table shop.orders", "Drop it.")

    started.publisher.declarations.tables.find_tried = refuse  # type: ignore[method-assign]
    with pytest.raises(SinkError):
        declare(started, {TOPIC: {"0": (end, end + 5)}})
    assert world.head.declared is None
