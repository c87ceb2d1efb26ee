"""Sessions of PostgreSQL without a server: how one is opened, when it is tried again, and the names of failures."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
import tenacity
from psycopg import errors as pg
from psycopg.pq import ConnStatus

from effectively_once.errors import (
    AccessError,
    PipelineError,
    RefusedRowsError,
    SettingsError,
    SinkError,
    UnreachableError,
)
from effectively_once.sinks.database import (
    DatabaseAddress,
    Session,
    connect,
    is_not_believed,
    name_error,
    name_failures,
)

ADDRESS = DatabaseAddress("postgresql://db:5433/results")
DENIED = [
    'password authentication failed for user "me"',
    'no pg_hba.conf entry for host "h"',
    'role "me" does not exist',
    'database "results" does not exist',
    "the user is not permitted to log in",
]

NOT_BELIEVED = [
    "SSL error: certificate verify failed",
    'server certificate for "a" does not match host name "b"',
    'root certificate file "/a/ca.crt" does not exist\nEither provide the file or change sslmode',
    "server does not support SSL, but SSL was required",
    'no pg_hba.conf entry for host "h", user "me", database "results", no encryption',
]


class Server:
    """Refuses the next sessions with these errors, then opens one."""

    def __init__(self, *refuses: Exception) -> None:
        self.refuses, self.asked, self.closed = list(refuses), list[dict[str, Any]](), 0

    def connect(self, **asked: Any) -> Any:
        self.asked.append(asked)
        if self.refuses:
            raise self.refuses.pop(0)
        return SimpleNamespace(close=self.close)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Server]:
    """Put a server there, and credentials into the environment."""
    monkeypatch.setenv("PGUSER", "me")
    monkeypatch.setenv("PGPASSWORD", "s3cret")

    def there(*refuses: Exception) -> Server:
        server = Server(*refuses)
        monkeypatch.setattr(Session, "connect", server.connect)
        return server

    return there


def test_a_session_is_asked_for_with_all_that_the_protocol_needs(serve: Callable[..., Server]) -> None:
    """Whatever defaults the database has: a standby takes no marks, and a commit that was answered is durable."""
    server, prepared = serve(), list[Any]()
    session = connect(ADDRESS, "n" * 70, 7.0, prepared.append)
    assert prepared == [session]
    assert (session.patience_s, server.closed) == (7.0, 0)
    (asked,) = server.asked
    options = asked.pop("options")
    assert asked.pop("connect_timeout") > 0
    assert asked == {
        "host": "db",
        "port": "5433",
        "dbname": "results",
        "user": "me",
        "password": "s3cret",
        "autocommit": True,
        "application_name": "n" * 63,
        "target_session_attrs": "read-write",
    }
    assert [*options.replace(r"\ ", "_").split()[::2]] == ["-c"] * 5
    assert dict(each.split("=") for each in options.replace(r"\ ", "_").split()[1::2]) == {
        "statement_timeout": "30000",
        "lock_timeout": "15000",
        "idle_in_transaction_session_timeout": "10000",
        "synchronous_commit": "on",
        "default_transaction_isolation": "read_committed",
    }


@pytest.mark.parametrize("variable", ["PGUSER", "PGPASSWORD"])
def test_credentials_that_are_missing_are_named(
    variable: str, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    monkeypatch.delenv(variable)
    with pytest.raises(SettingsError, match=f"missing .environment variable {variable}"):
        connect(ADDRESS, "a")
    assert server.asked == []


def test_a_server_that_is_not_there_is_asked_again_as_long_as_patience_lasts(serve: Callable[..., Server]) -> None:
    server = serve(psycopg.OperationalError("connection refused"), pg.AdminShutdown("ending"))
    connect(ADDRESS, "a")
    assert len(server.asked) == 3
    server = serve(*[psycopg.OperationalError("connection refused\nand why")] * 2)
    with pytest.raises(UnreachableError, match=r"does not answer: connection refused \(postgresql://db:5433/results\)"):
        connect(ADDRESS, "a", 0.0)
    assert len(server.asked) == 1


def test_it_is_asked_at_longer_and_longer_intervals(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(tenacity.nap, "time", SimpleNamespace(sleep=slept.append))
    monkeypatch.setattr(tenacity.wait, "random", SimpleNamespace(uniform=lambda _, most: most))
    serve(*[psycopg.OperationalError("connection refused")] * 7)
    connect(ADDRESS, "a")
    assert slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])


@pytest.mark.parametrize("text", DENIED)
def test_a_server_that_refuses_credentials_is_not_asked_again(text: str, serve: Callable[..., Server]) -> None:
    server = serve(psycopg.OperationalError(text))
    with pytest.raises(AccessError, match=r"PostgreSQL refuses.*Check PGUSER and PGPASSWORD"):
        connect(ADDRESS, "a")
    assert len(server.asked) == 1


@pytest.mark.parametrize("text", NOT_BELIEVED)
def test_a_server_that_is_not_believed_or_wants_tls_is_not_asked_again(text: str, serve: Callable[..., Server]) -> None:
    server = serve(psycopg.OperationalError(text))
    with pytest.raises(AccessError, match=r"no encrypted session with PostgreSQL.*Check PGSSLMODE.*PGSSLROOTCERT"):
        connect(ADDRESS, "a")
    assert len(server.asked) == 1


@pytest.mark.parametrize("again", [False, True])
def test_a_session_that_cannot_be_prepared_is_closed(again: bool, serve: Callable[..., Server]) -> None:
    """A lost one is begun anew; a table that is not there will not be there then."""
    server = serve()
    wrong = [psycopg.OperationalError("lost") if again else SinkError("no table", "there", "Make it.")]

    def prepare(_: Session) -> None:
        if wrong:
            raise wrong.pop()

    if again:
        connect(ADDRESS, "a", prepare=prepare)
    else:
        with pytest.raises(SinkError, match="no table"):
            connect(ADDRESS, "a", prepare=prepare)
    assert (len(server.asked), server.closed) == (1 + again, 1)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (pg.QueryCanceled("timeout"), UnreachableError),
        (pg.InsufficientPrivilege("may not"), AccessError),
        (pg.InvalidCatalogName("no such"), AccessError),
        *((psycopg.OperationalError(text), AccessError) for text in (*DENIED, *NOT_BELIEVED)),
        (pg.UniqueViolation("twice"), RefusedRowsError),
        (pg.UndefinedTable("gone"), RefusedRowsError),
        (pg.NumericValueOutOfRange("large"), RefusedRowsError),
        (pg.FeatureNotSupported("never"), RefusedRowsError),
        (pg.ProgramLimitExceeded("long"), RefusedRowsError),
        (psycopg.OperationalError("server closed the connection"), None),
        (psycopg.OperationalError("SSL SYSCALL error: EOF detected"), None),
        (pg.AdminShutdown("the certificate is renewed"), None),
        (psycopg.OperationalError("SSL connection has been closed unexpectedly"), None),
        (pg.AdminShutdown('role "me" does not exist'), None),
        (pg.SerializationFailure("again"), None),
        (pg.LockNotAvailable("lock"), None),
    ],
)
def test_what_no_new_session_helps_against_has_a_name_and_all_else_none(
    error: psycopg.Error, kind: type[PipelineError] | None
) -> None:
    """A commit without a name has an unknown outcome, and the mark is asked."""
    found = name_error(error, "table x")
    assert type(found) is (kind or type(None))
    assert found is None or (found.where == "table x" and str(error).splitlines()[0] in found.what)
    with pytest.raises(kind or UnreachableError, match="table x") as raised, name_failures("table x"):
        raise error
    assert raised.value.__cause__ is error


def test_what_is_no_session_that_did_not_begin_is_no_server_that_is_not_believed() -> None:
    assert not [
        one for one in (None, ValueError("certificate"), pg.UndefinedTable("certificate")) if is_not_believed(one)
    ]
    assert all(is_not_believed(psycopg.OperationalError(text)) for text in NOT_BELIEVED)


@pytest.mark.parametrize(
    ("text", "told"),
    [("first line\nDETAIL: a row", "first line"), ("x" * 400, "x" * 300), ("", "UniqueViolation")],
)
def test_an_error_tells_no_rows(text: str, told: str) -> None:
    found = name_error(pg.UniqueViolation(text), "here")
    assert found is not None
    assert found.what == f"PostgreSQL refuses: {told}"


def test_a_session_that_gets_no_answer_is_closed_and_its_outcome_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[tuple[Any, ...]] = []

    def wait(_: Any, gen: Any, interval: float, timeout: float | None) -> str:
        waited.append((gen, interval, timeout))
        if gen == "silent":
            raise pg._WaitTimeout
        return "answer"

    monkeypatch.setattr(psycopg.Connection, "wait", wait)
    ended: list[bool] = []
    session = Session.__new__(Session)
    session.pgconn = cast("Any", SimpleNamespace(status=ConnStatus.BAD, finish=lambda: ended.append(True)))
    session.patience_s = 3.0
    assert (session.wait("asked"), session.wait("asked", 0.2, 9.0)) == ("answer", "answer")
    with pytest.raises(pg._WaitTimeout):
        session.wait("silent", 0.2, 9.0)
    assert ended == []
    with pytest.raises(psycopg.OperationalError, match="no answer within 3 s") as unknown:
        session.wait("silent")
    assert name_error(unknown.value, "here") is None
    assert ended == [True]
    assert [(interval, timeout) for _, interval, timeout in waited] == [(0.1, 3.0), (0.2, 9.0), (0.2, 9.0), (0.1, 3.0)]
