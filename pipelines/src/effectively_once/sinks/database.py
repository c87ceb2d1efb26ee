"""Sessions of PostgreSQL on which every wait ends and every failure has a name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import tenacity
from psycopg import errors as pg

from effectively_once.errors import AccessError, PipelineError, RefusedRowsError, SettingsError, UnreachableError

USER, PASSWORD = "PGUSER", "PGPASSWORD"
SSL_MODE, AUTHORITIES = "PGSSLMODE", "PGSSLROOTCERT"
"""As libpq names them: whether to encrypt and to check the server's certificate, and the file that it is checked by."""
PATIENCE_S = 40.0
"""How long the server may stay silent, to a statement or to new sessions: longer than it may work on a statement."""
CONNECT_S = 5
STATEMENT_MS = 30_000
LOCK_MS = 15_000
"""How long a lock is waited for: longer than an open transaction that holds it may do nothing."""
IDLE_MS = 10_000
"""How long an open transaction waits for its client, which may be stopped or cut off. Then its locks are free."""
_URL = re.compile(r"postgresql://([^\s/:@?]+):(\d+)/([^\s/:@?]+)")
# A refusal before the session begins has no code, only its text; the server's language may be another one.
_DENIED = re.compile(r"authentication failed|no pg_hba\.conf entry|(role|database) \".*\" does not exist|not permitted")
# Likewise: one side does not speak TLS, or the certificate is not of whom the other one believes.
_NOT_BELIEVED = re.compile(r"certificate|does not support SSL|no encryption|SSL off")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """`postgresql://host:port/database`. Credentials come from the environment, so that they are in no file and no log.

    Raises:
        SettingsError: it is anything else.

    """

    url: str

    def __post_init__(self) -> None:
        """Refuse what is no address. The value is not repeated: it may hold a password."""
        if not _URL.fullmatch(self.url):
            raise SettingsError(
                "the address of a database is not postgresql://host:port/database",
                "settings",
                f"User and password do not belong there but into {USER} and {PASSWORD}.",
            )

    @property
    def parts(self) -> dict[str, Any]:
        """Host, port and database, as the client calls them."""
        found = _URL.fullmatch(self.url)
        assert found is not None  # noqa: S101 - __post_init__ has looked
        return dict(zip(("host", "port", "dbname"), found.groups(), strict=True))


class Session(psycopg.Connection[Any]):
    """A connection that waits for no answer longer than `patience_s`, and is closed then: its outcome is unknown."""

    patience_s = PATIENCE_S

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """See psycopg, which waits for ever.

        Raises:
            psycopg.OperationalError: there was no answer.

        """
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.patience_s)
        except pg._WaitTimeout as error:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer within {self.patience_s:g} s") from error


def connect(
    address: DatabaseAddress,
    name: str,
    patience_s: float = PATIENCE_S,
    prepare: Callable[[Session], object] = lambda _: None,
) -> Session:
    """Open a session that commits every statement by itself, and prepare it; what fails is begun anew.

    `name` is how the server's own tables show the session. `patience_s` is how long to try, and then the session's.

    Raises:
        SettingsError: there are no credentials.
        AccessError: they are refused, or the server's certificate is, or there is no such database.
        SinkError: the server refuses what `prepare` asks.
        UnreachableError: no session in time.

    """
    keys = {name: os.environ.get(name, "") for name in (USER, PASSWORD)}
    for variable, value in keys.items():
        if not value:
            raise SettingsError(
                "credentials of the database are missing", f"environment variable {variable}", "Set it."
            )

    def attempt() -> Session:
        session = Session.connect(
            **address.parts,
            user=keys[USER],
            password=keys[PASSWORD],
            autocommit=True,
            application_name=name[:63],
            connect_timeout=CONNECT_S,
            target_session_attrs="read-write",
            options=_options(),
        )
        session.patience_s = patience_s
        try:
            prepare(session)
        except BaseException:
            session.close()
            raise
        return session

    with name_failures(address.url):
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, psycopg.Error) and not name_error(error, "")
            ),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=2.0),
            stop=tenacity.stop_after_delay(patience_s),
            reraise=True,
        )(attempt)


@contextmanager
def name_failures(where: str) -> Iterator[None]:
    """Give every failure of the block its name.

    Raises:
        AccessError: credentials or rights are missing.
        SinkError: the server refuses the statement.
        UnreachableError: all else.

    """
    try:
        yield
    except psycopg.Error as error:
        raise name_error(error, where) or _unreachable(error, where) from error


def name_error(error: psycopg.Error, where: str) -> PipelineError | None:
    """Return the error that no new session helps against; None for one that a new session may settle."""
    match error:
        case pg.QueryCanceled():
            return _unreachable(error, where)
        case pg.InsufficientPrivilege() | pg.InvalidCatalogName():
            return AccessError(f"PostgreSQL refuses: {_first_line(error)}", where, f"Check the rights of {USER}.")
        case psycopg.OperationalError() if is_not_believed(error):
            return AccessError(
                f"no encrypted session with PostgreSQL: {_first_line(error)}",
                where,
                f"Check {SSL_MODE}, and that the server's certificate is for this host and by an authority in the file "
                f"of {AUTHORITIES}; nothing was lost.",
            )
        case psycopg.OperationalError() if error.sqlstate is None and _DENIED.search(str(error)):
            return AccessError(f"PostgreSQL refuses: {_first_line(error)}", where, f"Check {USER} and {PASSWORD}.")
        # The limit of a program (class 54), as the length of a key, is an OperationalError to the client.
        case (
            pg.ProgramLimitExceeded()
            | psycopg.ProgrammingError()
            | psycopg.DataError()
            | psycopg.IntegrityError()
            | psycopg.NotSupportedError()
        ):
            return RefusedRowsError(
                f"PostgreSQL refuses: {_first_line(error)}",
                where,
                "Correct the table or the job; nothing was lost, start the pipeline again.",
            )
    return None


def is_not_believed(error: BaseException | None) -> bool:
    """Whether a session did not begin since one side wants TLS, or another certificate, than the other one has."""
    return isinstance(error, psycopg.OperationalError) and not error.sqlstate and bool(_NOT_BELIEVED.search(str(error)))


def _unreachable(error: psycopg.Error, where: str) -> UnreachableError:
    return UnreachableError(
        f"the database does not answer: {_first_line(error)}",
        where,
        "Check that it runs and that the address is right; nothing was lost, start the pipeline again.",
    )


def _first_line(error: psycopg.Error) -> str:
    """First line only: what follows are details, which may hold rows."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _options() -> str:
    settings = {
        "statement_timeout": STATEMENT_MS,
        "lock_timeout": LOCK_MS,
        "idle_in_transaction_session_timeout": IDLE_MS,
        # Whatever the database's own defaults are: a commit that was answered is durable, and a statement that waited
        # for a lock sees what its holder committed.
        "synchronous_commit": "on",
        "default_transaction_isolation": r"read\ committed",
    }
    return " ".join(f"-c {name}={value}" for name, value in settings.items())
