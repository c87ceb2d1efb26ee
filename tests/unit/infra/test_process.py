"""Child processes and waits."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from infra.embedded.process import Child, ServerError, identity, kill_all, wait_for

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def _says(log: Path, text: str) -> bool:
    return text in log.read_text()


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[Child] = []
    thread = threading.Thread(target=lambda: started.append(Child("sleeper", SLEEPER, tmp_path / "log", cwd=tmp_path)))
    thread.start()
    thread.join()
    (child,) = started
    try:
        wait_for("the sleeper", 20, lambda: _says(tmp_path / "log", "up"), child)
        assert child.running()
        assert identity(child.pid) is not None
    finally:
        child.stop()
    assert not child.running()
    assert identity(child.pid) is None


def stubborn(folder: Path) -> tuple[Child, psutil.Process]:
    """Start a process that ignores requests to end; it, and its child."""
    log = folder / "log"
    child = Child("stubborn", [sys.executable, "-c", STUBBORN], log, cwd=folder)
    wait_for("its child", 20, lambda: _says(log, "\n"), child)
    return child, psutil.Process(int(log.read_text()))


def test_stopping_kills_what_ignores_the_request_and_its_descendants(tmp_path: Path) -> None:
    child, grandchild = stubborn(tmp_path)
    child.stop(grace_s=0.2)
    assert child.status() == -9
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE
    child.stop()


def test_who_was_killed_and_is_never_collected_by_its_parent_is_not_waited_for(tmp_path: Path) -> None:
    (child, grandchild), began = stubborn(tmp_path), time.monotonic()
    kill_all([grandchild], 60)
    assert grandchild.status() == psutil.STATUS_ZOMBIE
    assert time.monotonic() - began < 30
    child.kill()


def test_a_wait_fails_at_once_when_the_process_ended_and_shows_its_last_lines(tmp_path: Path) -> None:
    script = "print('port is taken'); raise SystemExit(3)"
    child = Child("broker", [sys.executable, "-c", script], tmp_path / "log", cwd=tmp_path)
    with pytest.raises(ServerError) as caught:
        wait_for("the broker", 60, lambda: False, child)
    said = str(caught.value)
    for part in ("waiting for the broker", "its process ended", "ended with 3", "port is taken"):
        assert part in said


def test_a_wait_that_is_too_long_names_the_last_obstacle() -> None:
    def refuse() -> bool:
        raise ConnectionRefusedError("nobody listens")

    with pytest.raises(ServerError, match=r"waiting for the broker: not within 0 s; last obstacle: .*nobody listens"):
        wait_for("the broker", 0.1, refuse)


def test_a_program_that_is_not_there_is_a_server_error(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="object store: cannot start"):
        Child("object store", [tmp_path / "minio"], tmp_path / "log", cwd=tmp_path)
