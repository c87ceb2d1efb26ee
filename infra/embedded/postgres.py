"""A real PostgreSQL server on one folder, with a user and password of its own for every run, or for data that are kept.

It does not run as root: as root it is started as another user, `postgres` where there is one, else `nobody`.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg
from psycopg import sql

from infra.embedded.ports import HOST
from infra.embedded.process import Child, ServerError, wait_for
from infra.embedded.server import Server

START_TIMEOUT_S = 30.0  # 0.1 s on an idle machine, more when it recovers from a SIGKILL
INITDB_TIMEOUT_S = 60.0  # 1 s
DATABASE = "results"
ACCOUNTS = ("postgres", "nobody")
SHARED = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108  mkdtemp makes a private one in it

SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    # What it holds outlives a SIGKILL, as the kernel has it by then, but no power cut: it is for a run, or a test.
    "fsync": "off",
    "full_page_writes": "off",
    # When a row was committed can be asked for, as on a cluster (charts/postgres).
    "track_commit_timestamp": "on",
}
# Data that are kept are gone on with after the machine was off, in order or not.
LASTING = {"fsync": "on", "full_page_writes": "on"}


class PostgresServer(Server):
    """A server with its log in `log` and its data in `work`, as root in a temporary folder that all may enter.

    Another user may not enter a run's folder, which may lie below root's home. Credentials and port stay the same over
    restarts; the password is in no log. `remove` deletes the data.

    With the `password` of data that are kept they stay in `work`, which as root others have to be able to enter: what
    is there already is gone on with.
    """

    name = "PostgreSQL"

    def __init__(
        self, work: Path, log: Path, programs: Path, database: str = DATABASE, *, password: str | None = None
    ) -> None:
        """`programs` is the folder of initdb and postgres; nothing is started yet."""
        super().__init__(log)
        self._home = work
        self._programs = programs
        self._port = 0
        self._as_user: list[str] = []
        self.database = database
        self.user = "effectively_once"
        self.password = password or secrets.token_hex(20)
        self._kept = password is not None

    @property
    def url(self) -> str:
        """Address without credentials; the same after a restart."""
        return f"postgresql://{HOST}:{self._port}/{self.database}"

    def start(self) -> None:
        """Make the data folder, start, and return when it answers and the database is there.

        Raises ServerError with the server's last log lines. A port that somebody took meanwhile is replaced.
        """
        self._make_data()
        self._start_on(1, self._at)
        with self.connect("postgres") as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [self.database]).fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.database)))

    def connect(self, database: str | None = None) -> psycopg.Connection:
        """Open a connection as the server's owner; every statement commits by itself."""
        return psycopg.connect(
            host=HOST,
            port=self._port,
            user=self.user,
            password=self.password,
            dbname=database or self.database,
            connect_timeout=5,
            autocommit=True,
        )

    def stop(self, grace_s: float = 5.0) -> None:
        """End it in order: open transactions are rolled back. Safe to repeat; the data stays."""
        if self._child is not None:
            # Its fast shutdown; at SIGTERM it would wait for every client to leave.
            self.signal(signal.SIGINT)
            self._child.wait(grace_s)
        super().stop(grace_s=0)

    def remove(self) -> None:
        """Delete the data of a stopped server."""
        shutil.rmtree(self._home, ignore_errors=True)

    def _at(self, ports: list[int], _attempt: int) -> None:
        (self._port,) = ports

    @property
    def _settings(self) -> Mapping[str, str]:
        return {**SETTINGS, **LASTING} if self._kept else SETTINGS

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def _make_data(self) -> None:
        complete = self._kept and self._data.is_dir()
        if os.geteuid() == 0:
            owner = _owner(self._data) if complete else _account()
            self._as_user = _as_user(owner)
            if not self._kept:
                self._home = make_shared_folder()
        if complete:
            return
        self._home.mkdir(parents=True, exist_ok=True)
        # It gets its name when it is complete: one that was interrupted would be taken for a database.
        made = self._home / "made"
        shutil.rmtree(made, ignore_errors=True)
        secret = self._home / "password"
        secret.unlink(missing_ok=True)
        with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.password + "\n")
        if os.geteuid() == 0:
            for path in (self._home, secret):
                os.chown(path, *owner)
        command = [
            *self._as_user,
            str(self._programs / "initdb"),
            "--pgdata",
            str(made),
            "--username",
            self.user,
            "--pwfile",
            str(secret),
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-instructions",
            *([] if self._kept else ["--no-sync"]),
        ]
        try:
            answer = subprocess.run(
                command, capture_output=True, text=True, timeout=INITDB_TIMEOUT_S, check=False, cwd=self._home
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServerError(f"PostgreSQL: making {self._data}: {error}") from error
        finally:
            secret.unlink()
        if answer.returncode != 0:
            raise ServerError(f"PostgreSQL: making {self._data} failed:\n{answer.stdout}{answer.stderr}".rstrip())
        made.rename(self._data)

    def _launch(self) -> None:
        # The one of a server that was killed; another process may have its number by now.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        child = Child(
            "PostgreSQL",
            [*self._as_user, self._programs / "postgres", "-D", self._data, "-p", str(self._port), *settings],
            self._log,
            cwd=self._home,
        )
        self._child = child
        wait_for(f"PostgreSQL at {HOST}:{self._port}", START_TIMEOUT_S, self._answers, child)

    def _answers(self) -> bool:
        self.connect("postgres").close()
        return True


def make_shared_folder(first: Sequence[Path] = ()) -> Path:
    """Make a folder for it below the first that another user than root may enter, of `first` before all others.

    Raises ServerError.
    """
    return Path(tempfile.mkdtemp(prefix="effectively-once-postgres-", dir=_shared_temporary_folder(first)))


def _owner(data: Path) -> tuple[int, int]:
    """Whom the data belong to: only that user may start it on them."""
    found = data.stat()
    return found.st_uid, found.st_gid


def _account() -> tuple[int, int]:
    for name in ACCOUNTS:
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return account.pw_uid, account.pw_gid
    raise ServerError(f"PostgreSQL does not run as root, and none of the users {', '.join(ACCOUNTS)} exists; make one")


def _shared_temporary_folder(first: Sequence[Path]) -> Path:
    """Find the first temporary folder that another user may enter: that of TMPDIR may be root's alone."""
    folders = (*first, Path(tempfile.gettempdir()).resolve(), *SHARED)
    for folder in folders:
        if folder.is_dir() and all(path.stat().st_mode & stat.S_IXOTH for path in (folder, *folder.parents)):
            return folder
    raise ServerError(
        f"PostgreSQL does not run as root, and another user may enter none of {', '.join(map(str, folders))}; "
        "set TMPDIR to a folder that others may enter"
    )


def _as_user(owner: tuple[int, int]) -> list[str]:
    """Words before a command that run it as that user. The signal at our death has to be asked for anew after that."""
    program = shutil.which("setpriv")
    if program is None:
        raise ServerError("PostgreSQL does not run as root, and setpriv is not here; install util-linux")
    return [
        program,
        f"--reuid={owner[0]}",
        f"--regid={owner[1]}",
        "--clear-groups",
        "--pdeathsig=KILL",
        "--",
    ]
