"""The guard: whoever is killed, nothing that was started survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from infra.embedded.process import wait_for

ROOT = Path(__file__).parents[3]

# The guarded program starts a server, which starts a helper in a session of its own that ignores SIGTERM; then it
# writes all process ids and waits. Helper and server are what a broker or an executor would be.
PROGRAM = """
import os, signal, subprocess, sys, time
from pathlib import Path
from infra.embedded.guard import run_guarded
from infra.embedded.process import Child

helper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
server = f'''
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", {helper!r}], start_new_session=True).pid, flush=True)
time.sleep(600)
'''
out = Path(sys.argv[1])

def main():
    child = Child("server", [sys.executable, "-c", server], out / "server.log", cwd=out)
    try:
        while not (out / "server.log").read_text().endswith("\\n"):
            time.sleep(0.01)
        helper_pid = (out / "server.log").read_text().strip()
        if sys.argv[2] == "orphan":
            os.kill(child.pid, signal.SIGKILL)
        (out / "pids.part").write_text(f"{os.getpid()} {child.pid} {helper_pid}")
        (out / "pids.part").rename(out / "pids")
        if sys.argv[2] == "return":
            return 5
        if sys.argv[2] == "raise":
            raise RuntimeError("a bug")
        time.sleep(600)
    except BaseException as error:
        (out / "ended").write_text(type(error).__name__)
        raise
    finally:
        if sys.argv[2] == "slow end":
            time.sleep(0.5)
            (out / "clean").touch()
    return 0

sys.exit(run_guarded(main))
"""


class Guarded:
    """The program under its guard, with the processes it started."""

    def __init__(self, out: Path, mode: str) -> None:
        self.out = out
        self.guard = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(out), mode],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=(out / "stderr").open("wb"),
            start_new_session=True,
        )
        wait_for("the program", 30, (out / "pids").exists)
        self.pids = [int(word) for word in (out / "pids").read_text().split()]
        self.processes = [psutil.Process(pid) for pid in self.pids if psutil.pid_exists(pid)]

    def exit_code(self) -> int:
        return self.guard.wait(30)

    def all_gone(self) -> bool:
        return not any(_alive(one) for one in self.processes)

    def cleanup(self) -> None:
        for one in [*self.processes, psutil.Process(self.guard.pid)] if self.guard.poll() is None else self.processes:
            if _alive(one):
                one.kill()
        self.guard.wait(10)


def _alive(one: psutil.Process) -> bool:
    try:
        return bool(one.is_running() and one.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


Start = Callable[[str], Guarded]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Guarded] = []

    def begin(mode: str) -> Guarded:
        started.append(Guarded(tmp_path, mode))
        return started[-1]

    yield begin
    for one in started:
        one.cleanup()


def test_the_exit_code_is_passed_on_and_nothing_is_left(start: Start) -> None:
    guarded = start("return")
    assert guarded.exit_code() == 5
    assert guarded.all_gone()


def test_an_error_is_shown_and_becomes_exit_code_1(start: Start) -> None:
    guarded = start("raise")
    assert guarded.exit_code() == 1
    assert "RuntimeError: a bug" in (guarded.out / "stderr").read_text()
    assert guarded.all_gone()


@pytest.mark.parametrize("mode", ["wait", "orphan"])
def test_when_the_program_is_killed_its_descendants_are_and_orphans_too(start: Start, mode: str) -> None:
    guarded = start(mode)
    assert _alive(psutil.Process(guarded.pids[2]))
    os.kill(guarded.pids[0], signal.SIGKILL)
    assert guarded.exit_code() == 128 + signal.SIGKILL
    assert len(guarded.processes) >= 2
    assert guarded.all_gone()


@pytest.mark.parametrize(
    ("strike", "number", "code", "ended"),
    [
        (os.killpg, signal.SIGINT, 130, "KeyboardInterrupt"),
        (os.kill, signal.SIGINT, 130, "KeyboardInterrupt"),
        (os.kill, signal.SIGTERM, 128 + signal.SIGTERM, "SystemExit"),
    ],
    ids=["Ctrl-C", "an interrupt of the guard alone", "a request to end"],
)
def test_what_the_guard_is_asked_for_ends_the_program_in_order_and_only_once(
    *, start: Start, strike: Callable[[int, int], None], number: int, code: int, ended: str
) -> None:
    guarded = start("slow end")
    strike(guarded.guard.pid, number)
    assert guarded.exit_code() == code
    assert (guarded.out / "ended").read_text() == ended
    assert (guarded.out / "clean").exists()
    assert guarded.all_gone()


@pytest.mark.parametrize("mode", ["wait", "orphan"])
def test_when_the_guard_is_killed_the_program_cleans_up(start: Start, mode: str) -> None:
    guarded = start(mode)
    os.kill(guarded.guard.pid, signal.SIGKILL)
    guarded.guard.wait(10)
    wait_for("all processes to be gone", 20, guarded.all_gone)
    assert (guarded.out / "ended").read_text() == "SystemExit"
