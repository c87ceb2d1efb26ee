"""The PostgreSQL sink beyond what all sinks share: tables, locks, time-outs, sessions that end, credentials."""

from __future__ import annotations

import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from threading import Event

import pyarrow as pa
import pytest

from effectively_once.errors import AccessError, SettingsError, SinkError, UnreachableError
from effectively_once.sinks import database
from effectively_once.sinks.database import PASSWORD, DatabaseAddress, connect
from effectively_once.sinks.postgres import TableAddress, TableSink, read_mark
from effectively_once.sinks.publish import FencedError, Mark, Published
from effectively_once.sinks.tables import TableShape, make
from infra.embedded.ports import free_ports
from tests.stack.sinks.adapter import PATIENCE_S
from tests.stack.sinks.counts_table import COUNTS, LATEST, as_owner, counts, rows_of, sink_of
from tests.stack.sinks.servers import Servers

pytestmark = pytest.mark.stack


def test_rows_and_mark_become_visible_together(servers: Servers, address: TableAddress) -> None:
    """And the other shard has a mark of its own."""
    sink = sink_of(address)
    seen: list[tuple[str, int]] = []
    sink.announce = lambda point: seen.append((point, len(rows_of(servers, address))))
    content, _ = sink.publish(0, 7, counts(("ann", 1), ("bob", 2)))
    assert seen == [("transaction_open", 0), ("committed", 2)]
    assert read_mark(address) == Mark(0, 7, 2, content.digest)
    assert read_mark(replace(address, shard=0)) is None


def test_a_table_that_was_set_back_while_a_driver_ran_is_refused(servers: Servers, address: TableAddress) -> None:
    """Rows and marks of a standby that lagged; by the session that lives on and by a new one."""
    kept = sink_of(address)
    for epoch in range(4):
        kept.publish(epoch, 1, counts((f"e{epoch}", 1)))
    with as_owner(servers) as owner:
        owner.execute(f"DELETE FROM {'.'.join(address.table)} WHERE \"user\" > 'e1'")  # noqa: S608
        owner.execute("UPDATE effectively_once.progress SET epoch = 1 WHERE pipeline = %s", [address.pipeline])
    for sink in (kept, sink_of(address)):
        with pytest.raises(SinkError, match="progress mark 1 lies outside the chain's 3 to 4"):
            sink.publish(4, 1, counts(("e4", 1)))
    assert rows_of(servers, address) == [("e0", 1), ("e1", 1)]


def test_many_rows_of_every_type_arrive_as_they_are(servers: Servers, address: TableAddress) -> None:
    """20,000 of them, some with nulls."""
    schema = pa.schema(
        [
            ("t", pa.string()),
            ("i", pa.int64()),
            ("s", pa.int32()),
            ("f", pa.float64()),
            ("b", pa.bool_()),
            ("raw", pa.binary()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("d", pa.decimal128(38, 2)),
        ]
    )
    one = (
        "é\n\t\\N\"'",
        -(2**63),
        2**31 - 1,
        0.1,
        True,
        b"\x00\xff",
        date(2026, 1, 31),
        datetime(2026, 1, 31, 1, 2, 3, 4, UTC),
        Decimal(f"-{'9' * 36}.10"),
    )
    address = replace(address, sink="types")
    make(address.database, address.pipeline, "types", shape := TableShape(schema), 2)
    rows = [one] * 19_999 + [(None,) * 9]
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    assert sink_of(address, shape).publish(0, 1, table)[0].rows == 20_000
    with as_owner(servers) as owner:
        columns = ",".join(schema.names)
        counted = f"SELECT *, count(*) FROM {'.'.join(address.table)} GROUP BY {columns} ORDER BY 10"  # noqa: S608
        assert owner.execute(counted).fetchall() == [(None,) * 9 + (1,), (*one, 19_999)]


def test_an_upsert_replaces_rows_of_equal_key_and_a_late_repeat_does_not(
    servers: Servers, address: TableAddress
) -> None:
    """The mark refuses an older epoch, whose values would otherwise come back."""
    address = replace(address, sink="latest")
    make(address.database, address.pipeline, "latest", LATEST, 2)
    sink = sink_of(address, LATEST)
    sink.publish(0, 1, counts(("ann", 1), ("bob", 1)))
    sink.publish(1, 1, counts(("ann", 2)))
    assert rows_of(servers, address) == [("ann", 2), ("bob", 1)]
    assert sink_of(address, LATEST).publish(0, 1, counts(("ann", 1), ("bob", 1)))[1] is Published.BEFORE
    assert rows_of(servers, address) == [("ann", 2), ("bob", 1)]
    with pytest.raises(SinkError, match=r"two rows of an epoch have one key \(user\)"):
        sink.publish(2, 1, counts(("ann", 3), ("ann", 4)))
    assert read_mark(address) == replace(read_mark(address) or Mark(0, 0, 0, ""), epoch=1)


def test_a_stale_generation_that_opens_anew_is_refused(servers: Servers, address: TableAddress) -> None:
    """It has no say over a shard that a newer one has opened, but may repeat what is published."""
    new = sink_of(address)
    new.publish(0, 2, counts(("ann", 1)))
    with pytest.raises(FencedError, match="sink counts shard 1"):
        sink_of(address).publish(1, 1, counts(("ann", 2)))
    assert sink_of(address).publish(0, 1, counts(("ann", 1)))[1] is Published.BEFORE
    assert new.publish(1, 2, counts(("ann", 2)))[1] is Published.NOW
    assert rows_of(servers, address) == [("ann", 1), ("ann", 2)]


def test_a_session_that_the_server_ended_is_replaced(servers: Servers, address: TableAddress) -> None:
    """An idle time-out of its own between epochs, or a restart by SIGKILL with the transaction open."""
    sink = sink_of(address)
    sink.publish(0, 1, counts(("ann", 0)))
    with as_owner(servers) as owner:
        ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s"
        assert owner.execute(ended, [f"{address.pipeline}.counts.1"]).fetchall() == [(True,)]
    assert sink.publish(1, 1, counts(("ann", 1)))[1] is Published.NOW
    killed: list[int] = []

    def kill(point: str) -> None:
        if point == "transaction_open" and not killed:
            killed.append(servers.postgres.pid)
            servers.postgres.kill()
            servers.postgres.restart()

    sink.announce = kill
    assert sink.publish(2, 1, counts(("ann", 2)))[1] is Published.NOW
    assert killed
    assert rows_of(servers, address) == [("ann", 0), ("ann", 1), ("ann", 2)]


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
        slept = pool.submit(sleeper.publish, 0, 1, counts(("ann", 1)))
        assert stopped.wait(10)
        assert sink_of(address).publish(0, 1, counts(("ann", 1)))[1] is Published.NOW
        wake.set()
        assert slept.result(20)[1] is Published.BEFORE
    assert rows_of(servers, address) == [("ann", 1)]


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
    sleeper = sink_of(address)
    with ThreadPoolExecutor(1) as pool:
        slept = pool.submit(sleeper.publish, 0, 1, counts(("ann", 1)))
        assert sending.wait(10)
        assert sink_of(address).publish(0, 2, counts(("ann", 1)))[1] is Published.NOW
        wake.set()
        assert slept.result(20)[1] is Published.BEFORE
    assert rows_of(servers, address) == [("ann", 1)]


def test_a_lock_that_is_not_let_go_is_named(
    servers: Servers, address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's session, without a time-out."""
    monkeypatch.setattr(database, "LOCK_MS", 300)
    sink = sink_of(address)
    sink.publish(0, 1, counts(("ann", 1)))
    with as_owner(servers) as owner:
        owner.execute("BEGIN")
        owner.execute("LOCK TABLE effectively_once.progress")
        with pytest.raises(UnreachableError, match=r"does not answer: canceling statement due to lock timeout"):
            sink.publish(1, 1, counts(("ann", 2)))
        owner.execute("ROLLBACK")
    assert sink.publish(1, 1, counts(("ann", 2)))[1] is Published.NOW


def test_a_statement_that_takes_too_long_is_named_and_leaves_nothing(
    servers: Servers, address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table with a slow trigger."""
    monkeypatch.setattr(database, "STATEMENT_MS", 300)
    with as_owner(servers) as owner:
        owner.execute(f"""
            CREATE FUNCTION {address.pipeline}.slow() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN PERFORM pg_sleep(5); RETURN NEW; END';
            CREATE TRIGGER slow BEFORE INSERT ON {".".join(address.table)}
            FOR EACH ROW EXECUTE FUNCTION {address.pipeline}.slow()
        """)
    sink = sink_of(address)
    with pytest.raises(UnreachableError, match=r"canceling statement due to statement timeout .table .*counts at"):
        sink.publish(0, 1, counts(("ann", 1)))
    assert (read_mark(address), rows_of(servers, address)) == (None, [])
    with as_owner(servers) as owner:
        owner.execute(f"DROP TRIGGER slow ON {'.'.join(address.table)}")
    assert sink.publish(0, 1, counts(("ann", 1)))[1] is Published.NOW


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
    with as_owner(servers) as owner:
        owner.execute(f"ALTER TABLE {'.'.join(address.table)} {change}")
    sink = sink_of(address)
    with pytest.raises(SinkError, match=rf"PostgreSQL refuses: .*({says}).*table {address.pipeline}.counts") as refused:
        sink.publish(0, 1, counts(*rows))
    assert "secret" not in str(refused.value)
    assert (read_mark(address), rows_of(servers, address)) == (None, [])
    assert sink.publish(0, 1, counts(("ann", 1)))[1] is Published.NOW


def test_a_shard_without_a_mark_is_refused(servers: Servers, address: TableAddress) -> None:
    """When it opens, when its mark goes away later, and when a start asks for it; nothing is published."""
    beyond = replace(address, shard=2)
    with pytest.raises(SinkError, match=r"no progress mark .sink counts shard 2 in table effectively_once\.progress"):
        sink_of(beyond).publish(0, 1, counts(("ann", 1)))
    with pytest.raises(SinkError, match="no progress mark"):
        read_mark(beyond)
    sink = sink_of(address)
    sink.publish(0, 1, counts(("ann", 1)))
    with as_owner(servers) as owner:
        owner.execute("DELETE FROM effectively_once.progress WHERE pipeline = %s", [address.pipeline])
    with pytest.raises(SinkError, match="no progress mark"):
        sink.publish(1, 1, counts(("ann", 2)))
    assert rows_of(servers, address) == [("ann", 1)]


def test_a_role_without_rights_is_named(
    servers: Servers, address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink needs the rights to insert and to update marks, no others; making needs more."""
    role = f"r_{address.pipeline}"
    with as_owner(servers) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'of-a-test'")
        monkeypatch.setenv(PASSWORD, "of-a-test")
        monkeypatch.setenv(database.USER, role)
        with pytest.raises(AccessError, match=r"permission denied for .*Check the rights of PGUSER"):
            sink_of(address).publish(0, 1, counts(("ann", 1)))
        with pytest.raises(AccessError, match="permission denied"):
            make(address.database, f"{address.pipeline}_other", "counts", COUNTS, 2)
        owner.execute(f"""
            GRANT USAGE ON SCHEMA effectively_once, {address.pipeline} TO {role};
            GRANT SELECT, UPDATE ON effectively_once.progress TO {role};
            GRANT SELECT, INSERT ON {".".join(address.table)} TO {role}
        """)
        assert sink_of(address).publish(0, 1, counts(("ann", 1)))[1] is Published.NOW


def test_wrong_credentials_are_named_at_once_and_never_shown(
    address: TableAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the message nor in what it came from."""
    monkeypatch.setenv(PASSWORD, "wr0ng-Secret")
    with pytest.raises(AccessError, match=rf"authentication failed .*{PASSWORD}") as refused:
        TableSink(address, COUNTS, patience_s=600).publish(0, 1, counts())
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
    sink = sink_of(address)
    for _ in range(5):
        sink.publish(0, 1, counts(("ann", 1)))
        with suppress(SinkError):
            sink.publish(0, 1, counts(("ann", 2)))
    with as_owner(servers) as owner:
        count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        assert (owner.execute(count, [f"{address.pipeline}.counts.1"]).fetchone() or ())[0] <= 2
    sink.close()
