"""PostgreSQL as a process: of another user than root, restartable on its data, gone with whoever started it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.embedded import postgres
from infra.embedded.postgres import PostgresServer
from infra.embedded.process import ServerError
from infra.toolchain.postgres import find_postgres
from tests.stack.sinks.servers import Servers

pytestmark = pytest.mark.stack

CHECKOUT = Path(__file__).parents[3]
STARTED = """
import sys
from pathlib import Path
from infra.embedded.postgres import PostgresServer
server = PostgresServer(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
server.start()
print(server.pid, server._home, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def programs(servers: Servers) -> Path:
    """Return the folder of its programs, which the session's servers made sure of."""
    found = find_postgres()
    assert found is not None
    return found


def test_it_runs_as_another_user_and_its_password_is_nowhere(servers: Servers) -> None:
    """Neither in its log nor in its command line, its environment or a file that stays."""
    server = servers.postgres
    process = psutil.Process(server.pid)
    assert process.uids().effective != 0
    assert server.password not in server._log.read_text()
    assert server.password not in str([process.cmdline(), process.environ(), server.url])
    kept = subprocess.run(["grep", "-r", server.password, server._home], capture_output=True, check=False)
    assert (kept.returncode, kept.stdout) == (1, b"")


@pytest.mark.skipif(os.geteuid() != 0, reason="another user than root keeps its data where it may itself")
def test_a_temporary_folder_of_root_alone_is_not_taken(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account that it runs as could not enter it."""
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    server = PostgresServer(tmp_path / "data", tmp_path / "log.txt", programs)
    try:
        server.start()
        assert not server._home.is_relative_to(tmp_path)
    finally:
        server.stop()
        server.remove()


def test_committed_rows_outlive_a_sigkill(servers: Servers) -> None:
    """Port and credentials stay."""
    server = servers.postgres
    with server.connect() as connection:
        connection.execute("CREATE TABLE of_a_killed_server AS SELECT 7 AS n")
    url = server.url
    server.kill()
    assert not server.running()
    server.restart()
    assert server.url == url
    with server.connect() as connection:
        assert connection.execute("SELECT n FROM of_a_killed_server").fetchall() == [(7,)]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for data that are kept: as root one that another user may enter."""
    folder = postgres.make_shared_folder() if os.geteuid() == 0 else tmp_path / "work"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_data_that_are_kept_are_gone_on_with_by_another_server(programs: Path, kept: Path, tmp_path: Path) -> None:
    """After an orderly end, and after SIGKILL; what an interrupted first start has left is in nobody's way."""
    (kept / "made").mkdir(parents=True)
    (kept / "made" / "PG_VERSION").write_text("half")
    (kept / "password").write_text("of an interrupted start")

    def make() -> PostgresServer:
        return PostgresServer(kept, tmp_path / "postgres.log", programs, password="the same")

    first, second, third = make(), make(), make()
    try:
        first.start()
        with first.connect() as connection:
            connection.execute("CREATE TABLE bought AS SELECT 1 AS n")
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
        first.stop()
        second.start()
        with second.connect() as connection:
            connection.execute("INSERT INTO bought VALUES (2)")
        second.kill()
        third.start()
        with third.connect() as connection:
            assert connection.execute("SELECT n FROM bought ORDER BY n").fetchall() == [(1,), (2,)]
    finally:
        for server in (first, second, third):
            server.stop()
    assert sorted(path.name for path in kept.iterdir()) == ["data"]


def test_it_stops_at_once_with_clients_connected_and_its_data_can_be_removed(programs: Path, tmp_path: Path) -> None:
    """At SIGTERM it would wait for them."""
    server = PostgresServer(tmp_path / "work", tmp_path / "postgres.log", programs)
    server.start()
    connection = server.connect()
    family = psutil.Process(server.pid).children(recursive=True)
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 15
    assert not any(one.is_running() for one in family)
    connection.close()
    server.remove()
    assert not server._home.exists()


def test_it_ends_with_the_process_that_started_it(programs: Path, tmp_path: Path) -> None:
    """However that ends: the signal at its death survives the change of user."""
    log = tmp_path / "postgres.log"
    command = [sys.executable, "-c", STARTED, str(tmp_path / "work"), str(log), str(programs)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, home = parent.stdout.readline().split()
        process = psutil.Process(int(pid))
        parent.send_signal(signal.SIGKILL)
        process.wait(10)
    PostgresServer(Path(home), log, programs).remove()


def test_why_it_cannot_be_started_is_said(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No user to run as, no way to become it, no programs."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    missing = PostgresServer(tmp_path / "work", tmp_path / "log", programs)
    with monkeypatch.context() as patch:
        patch.setattr(postgres, "ACCOUNTS", ("nobody-of-this-name",))
        with pytest.raises(ServerError, match="none of the users nobody-of-this-name exists"):
            missing.start()
    with monkeypatch.context() as patch:
        patch.setattr("shutil.which", lambda _: None)
        with pytest.raises(ServerError, match="setpriv is not here"):
            missing.start()
    broken = PostgresServer(tmp_path / "work", tmp_path / "log", tmp_path)
    with pytest.raises(ServerError, match=r"making .*data"):
        broken.start()
    broken.remove()
