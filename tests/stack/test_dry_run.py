"""What somebody added to a table, tried on a real PostgreSQL before anything of an epoch is visible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from effectively_once import Count, Pipeline, ToKafka, ToTable, Windowed
from effectively_once.driver.preflight import Preflight
from effectively_once.errors import AccessError, RefusedRowsError, SinkError
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.job import Job
from effectively_once.sinks import constraints
from effectively_once.sinks.constraints import Added, AskedTable
from effectively_once.sinks.database import PASSWORD, USER, DatabaseAddress, Session, connect
from effectively_once.sinks.postgres import TableAddress, TableSink, read_mark
from effectively_once.sinks.tables import TableShape, make
from infra.embedded.postgres import PostgresServer
from tests.settings import pipeline_settings
from tests.unit.library.refusing import Place, letters, table

pytestmark = pytest.mark.stack
SHAPE = TableShape(pa.schema([("id", pa.string()), ("amount", pa.int64()), ("parent", pa.string())]))
KEYED = TableShape(SHAPE.schema, key=("id",))
COLUMNS = pa.schema([("user", pa.string()), ("amount", pa.int64())])
ORDERS = Pipeline(
    lambda frame: frame,
    COLUMNS,
    rows=(ToKafka("accepted"), ToTable("orders", columns=("id", "amount"))),
    windows=(Windowed("user", {"n": Count()}, ToTable("per_user")),),
    window_ms=100,
    lateness_ms=0,
)


@pytest.fixture
def owner(database: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with database.connect() as connection:
        connection.autocommit = True
        yield connection


@pytest.fixture
def address(database: PostgresServer, pipeline: str) -> TableAddress:
    return TableAddress(DatabaseAddress(database.url), pipeline, "orders", 0)


def made(address: TableAddress, shape: TableShape = SHAPE) -> TableSink:
    make(address.database, address.pipeline, address.sink, shape, 2)
    return TableSink(address, shape, patience_s=5)


def find_added(address: TableAddress, shape: TableShape = SHAPE, shards: int = 2, **asked: Any) -> Added:
    """What the catalog says of the table; rows are sharded by their id."""
    with connect(address.database, "look") as session:
        return constraints.find_added(
            session, AskedTable(address.table, shape, **{"by": ("id",), "shards": shards, **asked})
        )


def rows(*given: tuple[str | None, int | None] | tuple[str | None, int | None, str | None]) -> pa.Table:
    whole = [dict(zip(SHAPE.schema.names, (*row, None), strict=False)) for row in given]
    return pa.Table.from_pylist(whole, SHAPE.schema)


def there(owner: psycopg.Connection[Any], address: TableAddress) -> list[tuple[Any, ...]]:
    return owner.execute(f'SELECT id, amount FROM "{address.pipeline}".orders ORDER BY 1').fetchall()  # noqa: S608


GOOD: list[tuple[str, int | None]] = [("a", 1), ("b", 2)]
ADDED: dict[str, tuple[str, list[tuple[str, int | None]], dict[int, str]]] = {
    "check": (
        "ADD CONSTRAINT positive CHECK (amount > 0)",
        [*GOOD, ("c", -1), ("d", 0)],
        {2: "positive", 3: "positive"},
    ),
    "not null": ("ALTER amount SET NOT NULL", [*GOOD, ("c", None)], {2: "not null amount"}),
    "unique": ("ADD CONSTRAINT once UNIQUE (amount)", [*GOOD, ("c", 1), ("d", 2), ("e", 3)], {2: "once", 3: "once"}),
    "deferred": (
        "ADD CONSTRAINT later UNIQUE (amount) DEFERRABLE INITIALLY DEFERRED",
        [*GOOD, ("c", 2)],
        {2: "later"},
    ),
    "foreign": ("ADD CONSTRAINT known FOREIGN KEY (amount) REFERENCES {}.amounts", [*GOOD, ("c", 9)], {2: "known"}),
    "length": ("ADD CONSTRAINT short CHECK (length(id) < 3)", [*GOOD, ("long", 1)], {2: "short"}),
    "exclusion": ("ADD CONSTRAINT apart EXCLUDE USING btree (amount WITH =)", [*GOOD, ("c", 1)], {2: "apart"}),
    "generated": (
        "ADD COLUMN half bigint GENERATED ALWAYS AS (100 / amount) STORED",
        [*GOOD, ("c", 0)],
        {2: "DivisionByZero"},
    ),
}


@pytest.mark.parametrize("case", ADDED)
def test_each_row_that_a_table_refuses_is_named_and_nothing_is_there(
    owner: psycopg.Connection[Any], address: TableAddress, case: str
) -> None:
    """The others are taken afterwards; the mark is where it was meanwhile."""
    statement, given, refused = ADDED[case]
    sink, name = made(address), f'"{address.pipeline}"'
    assert find_added(address) == Added()
    owner.execute(f"CREATE TABLE {name}.amounts (amount bigint PRIMARY KEY)")
    owner.execute(f"INSERT INTO {name}.amounts VALUES (1), (2)")  # noqa: S608
    owner.execute(f"ALTER TABLE {name}.orders {statement.format(name)}")
    assert len(find_added(address).all) >= 1
    for _ in range(2):
        assert sink.find_refused(1, rows(*given)) == refused
        assert (there(owner, address), read_mark(address)) == ([], None)
    if case != "deferred":
        with pytest.raises(RefusedRowsError):
            sink.publish(0, 1, rows(*given))
    left = [row for number, row in enumerate(given) if number not in refused]
    assert sink.publish(0, 1, rows(*left))[0].rows == len(left)
    assert there(owner, address) == left


def test_of_many_rows_the_few_are_found_and_rows_that_are_there_already_count(
    owner: psycopg.Connection[Any], address: TableAddress
) -> None:
    sink = made(address)
    owner.execute(f'CREATE UNIQUE INDEX once ON "{address.pipeline}".orders (lower(id))')
    owner.execute(f'ALTER TABLE "{address.pipeline}".orders ADD CONSTRAINT odd CHECK (amount <> 77)')
    sink.publish(0, 1, rows(("row5", 1)))
    given = rows(*((f"Row{number}", number) for number in range(20_000)))
    assert sink.find_refused(1, given) == {5: "once", 77: "odd"}
    assert sink.find_refused(1, given.slice(0, 0)) == {}


def test_what_create_makes_is_not_tried(owner: psycopg.Connection[Any], address: TableAddress) -> None:
    """A key is one of its own; what somebody adds to such a table counts, and replaces as the sink does."""
    sink = made(address, KEYED)
    assert find_added(address, KEYED) == Added()
    owner.execute(f'CREATE INDEX plain ON "{address.pipeline}".orders (amount)')
    assert find_added(address, KEYED) == Added()
    sink.publish(0, 1, rows(("a", 1)))
    owner.execute(f'CREATE UNIQUE INDEX once ON "{address.pipeline}".orders (amount)')
    assert find_added(address, KEYED).all == (f"unique index {address.pipeline}.once",)
    assert sink.find_refused(1, rows(("a", 2), ("b", 1), ("c", 1))) == {2: "once"}


def test_a_row_is_not_refused_because_the_one_that_it_refers_to_comes_later(
    owner: psycopg.Connection[Any], address: TableAddress
) -> None:
    name = f'"{address.pipeline}".orders'
    sink = made(address, KEYED)
    owner.execute(f"ALTER TABLE {name} ADD CONSTRAINT tree FOREIGN KEY (parent) REFERENCES {name} DEFERRABLE")
    # Parts of these are tried alone: the second row has to be found.
    given = [("a", 1, "d"), ("b", 1, "nobody"), ("c", 1, None), ("d", 1, "c"), ("e", 1, "b")]
    assert sink.find_refused(1, rows(*given)) == {1: "tree", 4: "tree"}
    sink.publish(0, 1, rows(given[0], *given[2:4]))


def test_a_trigger_that_raises_is_named_and_a_mistake_of_somebody_else_is_no_row_s_fault(
    owner: psycopg.Connection[Any], address: TableAddress
) -> None:
    name = f'"{address.pipeline}"'
    sink = made(address)
    owner.execute(f"""
        CREATE FUNCTION {name}.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.amount = 2 THEN RAISE 'secret of %', NEW.id; END IF; RETURN NEW; END $$;
        CREATE TRIGGER no BEFORE INSERT ON {name}.orders FOR EACH ROW EXECUTE FUNCTION {name}.no();""")
    assert find_added(address).all == ("trigger no",)
    assert sink.find_refused(1, rows(*GOOD)) == {1: "RaiseException"}
    owner.execute(f"""
        CREATE OR REPLACE FUNCTION {name}.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM nobody(); RETURN NEW; END $$;""")
    for _ in range(2):
        with pytest.raises(SinkError, match=r"function nobody\(\) does not exist"):
            sink.find_refused(1, rows(*GOOD))
    assert there(owner, address) == []


def test_a_session_that_ended_between_two_epochs_is_opened_anew(
    owner: psycopg.Connection[Any], address: TableAddress
) -> None:
    """As for a commit: a server that was restarted meanwhile costs no task."""
    sink = made(address)
    owner.execute(f'ALTER TABLE "{address.pipeline}".orders ADD CONSTRAINT positive CHECK (amount > 0)')
    for _ in range(2):
        assert sink.find_refused(1, rows(*GOOD, ("c", 0))) == {2: "positive"}
        own = f"{address.pipeline}.{address.sink}.0"
        ended = owner.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s", [own]
        )
        assert ended.fetchall() == [(True,)]
    assert sink.publish(0, 1, rows(*GOOD))[0].rows == 2


def test_very_many_refused_rows_cost_few_answers_of_the_server(
    owner: psycopg.Connection[Any], address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one 20,000 took half a minute; a task that works for two is ended, and its repeat takes as long."""
    sink = made(address)
    asked: list[Any] = []
    owner.execute(f'ALTER TABLE "{address.pipeline}".orders ADD CONSTRAINT positive CHECK (amount > 0)')
    execute = Session.execute

    def counted(*given: Any, **more: Any) -> Any:
        asked.append(given)
        return execute(*given, **more)

    monkeypatch.setattr(Session, "execute", counted)
    given = rows(*((f"row{number}", number % 3 - 2) for number in range(20_000)))
    assert sink.find_refused(1, given) == dict.fromkeys(range(20_000), "positive")
    assert len(asked) < 2_000


def test_what_a_table_refuses_only_together_stops_the_epoch_before_it_is_shown(
    owner: psycopg.Connection[Any], address: TableAddress
) -> None:
    """Each row alone is taken, so none is at fault; all of them in one statement are refused."""
    name = f'"{address.pipeline}"'
    sink = made(address)
    owner.execute(f"""
        CREATE FUNCTION {name}.few() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT count(*) FROM fresh) > 2 THEN RAISE 'too many'; END IF; RETURN NULL; END $$;
        CREATE TRIGGER few AFTER INSERT ON {name}.orders REFERENCING NEW TABLE AS fresh
        FOR EACH STATEMENT EXECUTE FUNCTION {name}.few();""")  # noqa: S608
    assert find_added(address).beyond == find_added(address, shards=1).beyond == ("trigger few",)
    assert sink.find_refused(1, rows(*GOOD)) == {}
    with pytest.raises(SinkError, match="too many"):
        sink.find_refused(1, rows(*GOOD, ("c", 3)))
    assert sink.publish(0, 1, rows(*GOOD))[0].rows == 2


def test_a_row_that_its_policy_refuses_stops_the_epoch_before_it_is_shown(
    owner: psycopg.Connection[Any], address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL tells it by the code of a missing right, which is no row's fault."""
    made(address)
    name = f'"{address.pipeline}"'
    owner.execute(f"""
        CREATE ROLE limited LOGIN PASSWORD 'limited';
        GRANT ALL ON SCHEMA {name}, effectively_once TO limited;
        GRANT ALL ON {name}.orders, effectively_once.progress TO limited;
        CREATE POLICY small ON {name}.orders WITH CHECK (amount < 100);
        ALTER TABLE {name}.orders ENABLE ROW LEVEL SECURITY;""")
    assert find_added(address) == Added(), "the tests' own user is above policies"
    monkeypatch.setenv(USER, "limited")
    monkeypatch.setenv(PASSWORD, "limited")
    sink = TableSink(address, SHAPE, patience_s=5)
    assert find_added(address).all == ("row-level security",)
    assert sink.find_refused(1, rows(*GOOD)) == {}
    with pytest.raises(AccessError, match="row-level security"):
        sink.find_refused(1, rows(*GOOD, ("c", 100)))
    assert sink.publish(0, 1, rows(*GOOD))[0].rows == 2


def test_a_table_that_refers_to_another_one_of_the_pipeline_is_not_tried(
    owner: psycopg.Connection[Any], database: PostgresServer, pipeline: str
) -> None:
    """Rows of the other one come with the same epoch: the trial would find none, and all would be dead letters."""
    heads = ToTable("heads", columns=("id", "user"), key=("id",))
    two = replace(ORDERS, rows=(heads, ToTable("orders", columns=("id", "amount"))), windows=())
    settings = pipeline_settings(pipeline=pipeline, database=database.url, shards=2, **two.defaults)
    trusted = settings.model_copy(update={"trusted_constraints": ("orders: constraint orders_id_fkey",)})
    preflight = Preflight(Job(two, settings), Layout(pipeline), None, None)  # type: ignore[arg-type]
    for name, shape in two.tables.items():
        make(DatabaseAddress(database.url), pipeline, name, shape, 2)
    owner.execute(f'ALTER TABLE "{pipeline}".heads ADD CONSTRAINT named CHECK (length("user") > 0)')
    owner.execute(f'ALTER TABLE "{pipeline}".orders ADD CONSTRAINT positive CHECK (amount > 0)')
    assert preflight.find_tried() == ("heads", "orders")
    owner.execute(f'ALTER TABLE "{pipeline}".orders ADD FOREIGN KEY (id) REFERENCES "{pipeline}".heads')
    with pytest.raises(SinkError, match=r"no trial of its rows can tell .*: constraint orders_id_fkey"):
        preflight.find_tried()
    assert Preflight(Job(two, trusted), Layout(pipeline), None, None).find_tried() == ("heads",)  # type: ignore[arg-type]


BEYOND = {
    "unique": ("ADD CONSTRAINT once UNIQUE (amount)", "unique index {}.once"),
    "exclusion": ("ADD CONSTRAINT apart EXCLUDE USING btree (amount WITH =)", "constraint apart"),
    "of its own": (
        "ADD CONSTRAINT known UNIQUE (id), ADD CONSTRAINT tree FOREIGN KEY (parent) REFERENCES {}.orders (id)",
        "constraint tree",
    ),
}


@pytest.mark.parametrize("case", BEYOND)
def test_what_two_shards_may_break_together_is_beyond_a_trial(
    owner: psycopg.Connection[Any], address: TableAddress, case: str
) -> None:
    statement, what = BEYOND[case]
    made(address)
    name = f'"{address.pipeline}"'
    owner.execute(f"ALTER TABLE {name}.orders {statement.format(name)}")
    assert find_added(address).beyond == (what.format(address.pipeline),)
    assert find_added(address, shards=1).beyond == ()


TOLD = {
    "of the id": "ALTER TABLE {}.orders ADD CONSTRAINT once UNIQUE (id, amount)",
    "of the id, in part": "CREATE UNIQUE INDEX once ON {}.orders (id) WHERE amount > 0",
    "excludes by the id": "ALTER TABLE {}.orders ADD CONSTRAINT apart EXCLUDE USING btree (id WITH =, amount WITH =)",
    "a trigger of rows": "CREATE TRIGGER each BEFORE INSERT ON {}.orders FOR EACH ROW EXECUTE FUNCTION {}.nothing()",
}


@pytest.mark.parametrize("case", TOLD)
def test_what_the_rows_of_one_shard_break_alone_is_not(
    owner: psycopg.Connection[Any], address: TableAddress, case: str
) -> None:
    made(address)
    name = f'"{address.pipeline}"'
    owner.execute(f"CREATE FUNCTION {name}.nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$")
    owner.execute(TOLD[case].format(name, name))
    assert find_added(address).all
    assert find_added(address).beyond == ()
    assert find_added(address, by=("id", "user")).beyond == (() if "trigger" in case else find_added(address).all)
    # Rows of equal ids are in two shards when their amounts differ.
    assert find_added(address, by=("id", "amount")).beyond == (
        find_added(address).all if case == "of the id, in part" else ()
    )


def test_an_epoch_is_shown_without_what_the_tables_refuse_and_a_repeat_decides_alike(
    owner: psycopg.Connection[Any], database: PostgresServer, pipeline: str
) -> None:
    """Without the dry run the Kafka sink shows the epoch, and the table stops it."""
    settings = pipeline_settings(pipeline=pipeline, database=database.url, shards=2, **ORDERS.defaults)
    preflight = Preflight(Job(ORDERS, settings), Layout(pipeline), None, None)  # type: ignore[arg-type]
    for name, shape in ORDERS.tables.items():
        make(DatabaseAddress(database.url), pipeline, name, shape, 2)
    assert preflight.find_tried() == ()
    owner.execute(f'ALTER TABLE "{pipeline}".orders ADD CONSTRAINT positive CHECK (amount > 0)')
    owner.execute(f'ALTER TABLE "{pipeline}".per_user ADD CONSTRAINT few CHECK (n < 2)')
    tried = preflight.find_tried()
    assert tried == ("orders", "per_user")
    real = {
        name: TableSink(TableAddress(DatabaseAddress(database.url), pipeline, name, 0), shape)
        for name, shape in ORDERS.tables.items()
    }
    place = Place(name=pipeline, real=real)
    given = table(ORDERS, {"id": "a"}, {"id": "b", "amount": -5}, {"id": "c"}, {"id": "d", "user": "bob"})
    with pytest.raises(RefusedRowsError, match="positive"):
        place.dedup(ORDERS, given)
    assert len(place.published["accepted"]) == 4, "readers see it, and no repeat can show it in the table"
    place.published.clear()
    for step in range(2):
        carried, told = place.dedup(ORDERS, given, tried=tried)
        assert (told["accepted"], told["malformed"]) == (3, 1)
        assert len(place.published["accepted"]) == 3
        assert [(one["reason"], one["id"]) for one in letters(place)] == [("refused_by_table orders: positive", "b")]
        assert sorted(owner.execute(f'SELECT id FROM "{pipeline}".orders').fetchall()) == [("a",), ("c",), ("d",)]  # noqa: S608
        found = place.aggregate(ORDERS, carried, tried=tried)
        if step == 0:
            owner.execute(f'ALTER TABLE "{pipeline}".orders DROP CONSTRAINT positive')
    named = place.decided(found)
    closing: dict[str, Any] = {"number": 1, "named": named, "watermark_ms": 100, "tried": tried}
    for _ in range(2):
        more, _ = place.dedup(ORDERS, table(ORDERS), **closing)
        (letter,) = letters(place)
        assert (letter["reason"], letter["value"]) == (
            "result_refused_by_table per_user: few",
            '{"user":"ann","window_start_ms":0,"n":"2"}',
        )
        place.aggregate(ORDERS, more, **closing)
        assert owner.execute(f'SELECT * FROM "{pipeline}".per_user').fetchall() == [("bob", 0, 1)]  # noqa: S608
