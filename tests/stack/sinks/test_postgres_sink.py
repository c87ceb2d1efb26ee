"""The PostgreSQL sink beyond what all sinks share: tables, locks, time-outs, sessions that end, credentials."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from threading import Event

import psycopg
import pyarrow as pa
import pytest

from effectively_once.errors import AccessError, SettingsError, SinkError, UnreachableError
from effectively_once.sinks import database
from effectively_once.sinks.database import PASSWORD, DatabaseAddress, connect
from effectively_once.sinks.postgres import TableAddress, TableSink, read_mark
from effectively_once.sinks.publish import FencedError, Mark, Published
from effectively_once.sinks.tables import TableShape, make
from infra.embedded.ports import free_ports
from tests.stack.sinks.adapter import PATIENCE_S, Place
from tests.stack.sinks.servers import Servers

pytestmark = pytest.mark.stack

COUNTS = TableShape(pa.schema([("user", pa.string()), ("number", pa.int64())]))
LATEST = TableShape(COUNTS.schema, key=("user",))


@pytest.fixture
def address(servers: Servers, place: Place, credentials: None) -> Iterator[TableAddress]:
    """Make a table that is appended to; go to the server without the link."""
    url = f"postgresql://{servers.postgres.url.split('/', 2)[2]}"
    found = TableAddress(DatabaseAddress(url), place.pipeline, "counts", 1)
    make(found.database, found.pipeline, found.sink, COUNTS, 2)
    yield found
    with _as_owner(servers) as owner:
        # A failed test must not hold locks that a later one waits for.
        owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s",
                      [f"{place.pipeline}.%"])  # fmt: skip


def _as_owner(servers: Servers) -> psycopg.Connection:
    return servers.postgres.connect()


def _counts(*rows: tuple[str, int]) -> pa.Table:
    return pa.table({"user": [user for user, _ in rows], "number": [n for _, n in rows]}, COUNTS.schema)


def _rows(servers: Servers, address: TableAddress) -> list[tuple[object, ...]]:
    with _as_owner(servers) as owner:
        return sorted(owner.execute(f"SELECT * FROM {'.'.join(address.table)}").fetchall())  # noqa: S608


def _sink(address: TableAddress, shape: TableShape = COUNTS) -> TableSink:
    return TableSink(address, shape, patience_s=PATIENCE_S)


def test_rows_and_mark_become_visible_together(servers: Servers, address: TableAddress) -> None:
    """And the other shard has a mark of its own."""
    sink = _sink(address)
    seen: list[tuple[str, int]] = []
    sink.announce = lambda point: seen.append((point, len(_rows(servers, address))))
    content, _ = sink.publish(0, 7, _counts(("ann", 1), ("bob", 2)))
    assert seen == [("transaction_open", 0), ("committed", 2)]
    assert read_mark(address) == Mark(0, 7, 2, content.digest)
    assert read_mark(replace(address, shard=0)) is None


def test_many_rows_of_every_type_arrive_as_they_are(servers: Servers, address: TableAddress) -> None:
    """20,000 of them, some with nulls."""
    schema = pa.schema([
        ("t", pa.string()), ("i", pa.int64()), ("s", pa.int32()), ("f", pa.float64()), ("b", pa.bool_()),
        ("raw", pa.binary()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")),
    ])  # fmt: skip
    one = ("é\n\t\\N\"'", -(2**63), 2**31 - 1, 0.1, True, b"\x00\xff", date(2026, 1, 31),
           datetime(2026, 1, 31, 1, 2, 3, 4, UTC))  # fmt: skip
    address = replace(address, sink="types")
    make(address.database, address.pipeline, "types", shape := TableShape(schema), 2)
    rows = [one] * 19_999 + [(None,) * 8]
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    assert _sink(address, shape).publish(0, 1, table)[0].rows == 20_000
    with _as_owner(servers) as owner:
        columns = ",".join(schema.names)
        counted = f"SELECT *, count(*) FROM {'.'.join(address.table)} GROUP BY {columns} ORDER BY 9"  # noqa: S608
        assert owner.execute(counted).fetchall() == [(None,) * 8 + (1,), (*one, 19_999)]


def test_an_upsert_replaces_rows_of_equal_key_and_a_late_repeat_does_not(
    servers: Servers, address: TableAddress
) -> None:
    """The mark refuses an older epoch, whose values would otherwise come back."""
    address = replace(address, sink="latest")
    make(address.database, address.pipeline, "latest", LATEST, 2)
    sink = _sink(address, LATEST)
    sink.publish(0, 1, _counts(("ann", 1), ("bob", 1)))
    sink.publish(1, 1, _counts(("ann", 2)))
    assert _rows(servers, address) == [("ann", 2), ("bob", 1)]
    assert _sink(address, LATEST).publish(0, 1, _counts(("ann", 1), ("bob", 1)))[1] is Published.BEFORE
    assert _rows(servers, address) == [("ann", 2), ("bob", 1)]
    with pytest.raises(SinkError, match=r"two rows of an epoch have one key \(user\)"):
        sink.publish(2, 1, _counts(("ann", 3), ("ann", 4)))
    assert read_mark(address) == replace(read_mark(address) or Mark(0, 0, 0, ""), epoch=1)


def test_a_stale_generation_that_opens_anew_is_refused(servers: Servers, address: TableAddress) -> None:
    """It has no say over a shard that a newer one has opened, but may repeat what is published."""
    new = _sink(address)
    new.publish(0, 2, _counts(("ann", 1)))
    with pytest.raises(FencedError, match="sink counts shard 1"):
        _sink(address).publish(1, 1, _counts(("ann", 2)))
    assert _sink(address).publish(0, 1, _counts(("ann", 1)))[1] is Published.BEFORE
    assert new.publish(1, 2, _counts(("ann", 2)))[1] is Published.NOW
    assert _rows(servers, address) == [("ann", 1), ("ann", 2)]


def test_a_session_that_the_server_ended_is_replaced(servers: Servers, address: TableAddress) -> None:
    """An idle time-out of its own between epochs, or a restart by SIGKILL with the transaction open."""
    sink = _sink(address)
    sink.publish(0, 1, _counts(("ann", 0)))
    with _as_owner(servers) as owner:
        ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s"
        assert owner.execute(ended, [f"{address.pipeline}.counts.1"]).fetchall() == [(True,)]
    assert sink.publish(1, 1, _counts(("ann", 1)))[1] is Published.NOW
    killed: list[int] = []

    def kill(point: str) -> None:
        if point == "transaction_open" and not killed:
            killed.append(servers.postgres.pid)
            servers.postgres.kill()
            servers.postgres.restart()

    sink.announce = kill
    assert sink.publish(2, 1, _counts(("ann", 2)))[1] is Published.NOW
    assert killed
    assert _rows(servers, address) == [("ann", 0), ("ann", 1), ("ann", 2)]


def test_a_publisher_that_stops_with_its_transaction_open_keeps_nobody_waiting_for_long(
    servers: Servers, address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends it; when it wakes it finds its epoch published."""
    monkeypatch.setattr(database, "IDLE_MS", 500)
    stopped, wake = Event(), Event()

    def stop(point: str) -> None:
        if point == "transaction_open" and not stopped.is_set():
            stopped.set()
            assert wake.wait(30)

    sleeper = TableSink(address, COUNTS, stop, PATIENCE_S)
    with ThreadPoolExecutor(1) as pool:
        slept = pool.submit(sleeper.publish, 0, 1, _counts(("ann", 1)))
        assert stopped.wait(10)
        assert _sink(address).publish(0, 1, _counts(("ann", 1)))[1] is Published.NOW
        wake.set()
        assert slept.result(20)[1] is Published.BEFORE
    assert _rows(servers, address) == [("ann", 1)]


def test_a_publisher_that_stops_while_it_sends_rows_holds_no_lock(
    servers: Servers, address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data of a COPY have no time-out at the server: rows are sent before the transaction begins."""
    sending, wake = Event(), Event()
    original = TableSink._stage

    def stage(self: TableSink, session: database.Session, rows: pa.Table) -> None:
        if self is sleeper:
            session.execute("TRUNCATE pg_temp.staged")
            with session.cursor() as cursor, cursor.copy("COPY pg_temp.staged FROM STDIN") as copy:
                copy.write(b"ann\t")
                sending.set()
                assert wake.wait(30)
                copy.write(b"1\n")
        else:
            original(self, session, rows)

    monkeypatch.setattr(TableSink, "_stage", stage)
    sleeper = _sink(address)
    with ThreadPoolExecutor(1) as pool:
        slept = pool.submit(sleeper.publish, 0, 1, _counts(("ann", 1)))
        assert sending.wait(10)
        assert _sink(address).publish(0, 2, _counts(("ann", 1)))[1] is Published.NOW
        wake.set()
        assert slept.result(20)[1] is Published.BEFORE
    assert _rows(servers, address) == [("ann", 1)]


def test_a_lock_that_is_not_let_go_is_named(
    servers: Servers, address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's session, without a time-out."""
    monkeypatch.setattr(database, "LOCK_MS", 300)
    sink = _sink(address)
    sink.publish(0, 1, _counts(("ann", 1)))
    with _as_owner(servers) as owner:
        owner.execute("BEGIN")
        owner.execute("LOCK TABLE effectively_once.progress")
        with pytest.raises(UnreachableError, match=r"does not answer: canceling statement due to lock timeout"):
            sink.publish(1, 1, _counts(("ann", 2)))
        owner.execute("ROLLBACK")
    assert sink.publish(1, 1, _counts(("ann", 2)))[1] is Published.NOW


def test_a_statement_that_takes_too_long_is_named_and_leaves_nothing(
    servers: Servers, address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table with a slow trigger."""
    monkeypatch.setattr(database, "STATEMENT_MS", 300)
    with _as_owner(servers) as owner:
        owner.execute(f"""
            CREATE FUNCTION {address.pipeline}.slow() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN PERFORM pg_sleep(5); RETURN NEW; END';
            CREATE TRIGGER slow BEFORE INSERT ON {'.'.join(address.table)}
            FOR EACH ROW EXECUTE FUNCTION {address.pipeline}.slow()
        """)  # fmt: skip
    sink = _sink(address)
    with pytest.raises(UnreachableError, match=r"canceling statement due to statement timeout .table .*counts at"):
        sink.publish(0, 1, _counts(("ann", 1)))
    assert (read_mark(address), _rows(servers, address)) == (None, [])
    with _as_owner(servers) as owner:
        owner.execute(f"DROP TRIGGER slow ON {'.'.join(address.table)}")
    assert sink.publish(0, 1, _counts(("ann", 1)))[1] is Published.NOW


@pytest.mark.parametrize(
    ("change", "rows", "says"),
    [
        ("ADD UNIQUE (number)", [("ann", 1), ("secret", 1)], "duplicate key value violates unique constraint"),
        ("ALTER COLUMN number SET NOT NULL", [("secret", None)], 'null value in column "number"'),
        ("ADD CHECK (number > 0)", [("secret", 0)], "violates check constraint"),
        ("ADD CHECK (number > 0)", [("sec\0ret", 1)], "NUL|0x00"),
    ],
)
def test_rows_that_the_table_does_not_take_are_named_without_their_content(
    servers: Servers, address: TableAddress, change: str, rows: list[tuple[str, int]], says: str
) -> None:
    """Nothing of the epoch is there; once the table takes them they are published."""
    with _as_owner(servers) as owner:
        owner.execute(f"ALTER TABLE {'.'.join(address.table)} {change}")
    sink = _sink(address)
    with pytest.raises(SinkError, match=rf"PostgreSQL refuses: .*({says}).*table {address.pipeline}.counts") as refused:
        sink.publish(0, 1, _counts(*rows))
    assert "secret" not in str(refused.value)
    assert (read_mark(address), _rows(servers, address)) == (None, [])
    assert sink.publish(0, 1, _counts(("ann", 1)))[1] is Published.NOW


def test_other_columns_than_declared_are_refused(address: TableAddress) -> None:
    """By name, order or type."""
    numbers = pa.schema([("user", pa.string()), ("number", pa.int32())])
    for table in (_counts(("a", 1)).select(["number", "user"]), _counts(("a", 1)).cast(numbers)):
        with pytest.raises(SinkError, match="the sink was declared with"):
            _sink(address).publish(0, 1, table)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("DROP COLUMN number", 'lacks "number" bigint .*ALTER TABLE "{}"."counts" ADD COLUMN "number" bigint;'),
        ("ALTER COLUMN number TYPE integer", "number is integer and must be bigint"),
        ("ADD COLUMN more text NOT NULL", "more is required and not given"),
    ],
)
def test_a_table_in_another_shape_is_named_at_deployment_and_by_the_sink(
    servers: Servers, address: TableAddress, change: str, says: str
) -> None:
    """Before anything is published."""
    with _as_owner(servers) as owner:
        owner.execute(f"ALTER TABLE {'.'.join(address.table)} {change}")
    for ask in (
        lambda: make(address.database, address.pipeline, "counts", COUNTS, 2),
        lambda: _sink(address).publish(0, 1, _counts()),
    ):
        with pytest.raises(SinkError, match=says.format(address.pipeline)):
            ask()
    assert read_mark(address) is None


def test_a_table_without_the_key_of_an_upsert_is_named(address: TableAddress) -> None:
    """ON CONFLICT would be refused at the first row."""
    with pytest.raises(SinkError, match=r"no unique key is \(user\)"):
        make(address.database, address.pipeline, "counts", LATEST, 2)


def test_more_columns_may_be_there_if_they_can_be_left_out(servers: Servers, address: TableAddress) -> None:
    """The old version of a job runs on while a column is added for the next one."""
    sink = _sink(address)
    sink.publish(0, 1, _counts(("ann", 1)))
    with _as_owner(servers) as owner:
        owner.execute(
            f"ALTER TABLE {'.'.join(address.table)} ADD COLUMN country text, ADD COLUMN n int NOT NULL DEFAULT 7"
        )
    sink.publish(1, 1, _counts(("ann", 2)))
    _sink(address).publish(2, 1, _counts(("ann", 3)))
    assert _rows(servers, address) == [("ann", n, None, 7) for n in (1, 2, 3)]


def test_making_is_repeated_and_shared_without_harm(servers: Servers, address: TableAddress) -> None:
    """Marks that are there stay."""
    _sink(address).publish(0, 1, _counts(("ann", 1)))
    with ThreadPoolExecutor(6) as pool:
        made = [
            pool.submit(make, address.database, address.pipeline, sink, COUNTS, 2)
            for sink in ("counts", "one", "one", "two", "two", "two")
        ]
        for one in made:
            one.result(30)
    mark = read_mark(address)
    assert mark is not None
    assert (mark.epoch, read_mark(replace(address, sink="two"))) == (0, None)


def test_another_number_of_shards_and_a_table_that_is_gone_are_refused(servers: Servers, address: TableAddress) -> None:
    """Neither is silently begun anew."""
    with pytest.raises(SinkError, match="marks of 2 shards, asked for are 3"):
        make(address.database, address.pipeline, "counts", COUNTS, 3)
    _sink(address).publish(4, 1, _counts(("ann", 1)))
    with _as_owner(servers) as owner:
        owner.execute(f"DROP TABLE {'.'.join(address.table)}")
    with pytest.raises(SinkError, match="the table is gone, and epochs up to 4 were published into it"):
        make(address.database, address.pipeline, "counts", COUNTS, 2)
    with pytest.raises(SinkError, match="the table does not exist"):
        _sink(address).publish(5, 1, _counts())


def test_a_shard_without_a_mark_is_refused(servers: Servers, address: TableAddress) -> None:
    """When it opens, when its mark goes away later, and when a start asks for it; nothing is published."""
    beyond = replace(address, shard=2)
    with pytest.raises(SinkError, match=r"no progress mark .sink counts shard 2 in table effectively_once\.progress"):
        _sink(beyond).publish(0, 1, _counts(("ann", 1)))
    with pytest.raises(SinkError, match="no progress mark"):
        read_mark(beyond)
    sink = _sink(address)
    sink.publish(0, 1, _counts(("ann", 1)))
    with _as_owner(servers) as owner:
        owner.execute("DELETE FROM effectively_once.progress WHERE pipeline = %s", [address.pipeline])
    with pytest.raises(SinkError, match="no progress mark"):
        sink.publish(1, 1, _counts(("ann", 2)))
    assert _rows(servers, address) == [("ann", 1)]


def test_a_role_without_rights_is_named(
    servers: Servers, address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink needs the rights to insert and to update marks, no others; making needs more."""
    role = f"r_{address.pipeline}"
    with _as_owner(servers) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'of-a-test'")
        monkeypatch.setenv(PASSWORD, "of-a-test")
        monkeypatch.setenv(database.USER, role)
        with pytest.raises(AccessError, match=r"permission denied for .*Check the rights of PGUSER"):
            _sink(address).publish(0, 1, _counts(("ann", 1)))
        with pytest.raises(AccessError, match="permission denied"):
            make(address.database, f"{address.pipeline}_other", "counts", COUNTS, 2)
        owner.execute(f"""
            GRANT USAGE ON SCHEMA effectively_once, {address.pipeline} TO {role};
            GRANT SELECT, UPDATE ON effectively_once.progress TO {role};
            GRANT SELECT, INSERT ON {'.'.join(address.table)} TO {role}
        """)  # fmt: skip
        assert _sink(address).publish(0, 1, _counts(("ann", 1)))[1] is Published.NOW


def test_wrong_credentials_are_named_at_once_and_never_shown(
    address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the message nor in what it came from."""
    monkeypatch.setenv(PASSWORD, "wr0ng-Secret")
    with pytest.raises(AccessError, match=rf"authentication failed .*{PASSWORD}") as refused:
        TableSink(address, COUNTS, patience_s=600).publish(0, 1, _counts())
    assert "wr0ng-Secret" not in "".join(traceback.format_exception(refused.value))
    monkeypatch.delenv(PASSWORD)
    with pytest.raises(SettingsError, match=f"environment variable {PASSWORD}"):
        read_mark(address)


def test_a_database_that_does_not_exist_or_answer_is_named(
    address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first at once, the second after the patience."""
    nowhere = DatabaseAddress(f"{address.database.url}x")
    with pytest.raises(AccessError, match=r'database ".*x" does not exist'):
        connect(nowhere, "test", 600)
    (port,) = free_ports(1)
    with pytest.raises(UnreachableError, match=f"the database does not answer: .*{port}") as refused:
        connect(DatabaseAddress(f"postgresql://127.0.0.1:{port}/x"), "test", 0.3)
    assert "\n" not in str(refused.value)


def test_sessions_do_not_pile_up(servers: Servers, address: TableAddress) -> None:
    """Every opening of a shard closes the session before it, also after a refusal."""
    sink = _sink(address)
    for _ in range(5):
        sink.publish(0, 1, _counts(("ann", 1)))
        with suppress(SinkError):
            sink.publish(0, 1, _counts(("ann", 2)))
    with _as_owner(servers) as owner:
        count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        assert (owner.execute(count, [f"{address.pipeline}.counts.1"]).fetchone() or ())[0] <= 2
    sink.close()
