"""Whichever way a run ends, what faults did is undone, and that is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest

from tests.harness.faults.healing import Debt, Healing
from tests.unit.harness.sleepers import SOON_S, sleeper, soon, state_of

ROOT = Path(__file__).parents[3]

# Stops a process that is not its own child, as Spark's are not the harness's, and ends as it is told to.
PROGRAM = """
import os, sys, time
from pathlib import Path
import psutil
from infra.embedded.guard import run_guarded
from tests.harness.faults.healing import Healing
from tests.harness.faults.stopped import Stopped

def main():
    def say(line):
        Path(sys.argv[3]).open("a").write(line + chr(10))
    healing = Healing(say)
    try:
        Stopped("victim", [psutil.Process(int(sys.argv[1]))], healing).stop()
        Path(sys.argv[2]).write_text(str(os.getpid()))
        if sys.argv[4] == "raise":
            raise RuntimeError("a bug")
        time.sleep(600)
    finally:
        healing.close(torn_down=True)

sys.exit(run_guarded(main))
"""


@pytest.mark.parametrize("way", ["SIGTERM", "SIGINT", "raise"])
def test_a_stopped_process_goes_on_however_the_run_ends(tmp_path: Path, way: str) -> None:
    victim = sleeper(tmp_path)
    told = tmp_path / "told"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(victim.pid), str(tmp_path / "ready"), str(told), way],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'pipelines' / 'src'}"},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        soon("the victim to be stopped", (tmp_path / "ready").exists)
        if way != "raise":
            assert state_of(victim.pid) == psutil.STATUS_STOPPED
            program.send_signal(signal.Signals[way])
        assert program.wait(SOON_S) != 0
        assert state_of(victim.pid) != psutil.STATUS_STOPPED
        assert told.read_text() == f"✓ healed at the end of the run: continue victim {victim.pid}\n"
    finally:
        program.kill()
        victim.kill()


def _failing() -> None:
    raise RuntimeError("cannot")


def test_everything_is_undone_the_last_first_and_a_failure_keeps_nothing_from_it() -> None:
    said: list[str] = []
    done: list[str] = []
    healing = Healing(said.append)
    for what, undo in (("a", lambda: done.append("a")), ("b", _failing), ("c", lambda: done.append("c"))):
        healing.owe(Debt(what, undo))
    assert healing.owed == ["a", "b", "c"]
    healing.close(torn_down=False)
    assert done == ["c", "a"]
    assert [line[0] for line in said] == ["✓", "✗", "✓"]
    assert "could not b: cannot" in said[1]
    healing.close(torn_down=False)
    assert done == ["c", "a"]


@pytest.mark.parametrize(("torn_down", "started"), [(True, 0), (False, 1)])
def test_a_server_is_started_again_unless_the_whole_stack_ends(torn_down: bool, started: int) -> None:
    said: list[str] = []
    starts: list[int] = []
    healing = Healing(said.append)
    healing.owe(Debt("start the broker again", lambda: starts.append(1), server=True))
    healing.close(torn_down=torn_down)
    assert len(starts) == started
    assert "start the broker again" in said[0]
    assert ("torn down" in said[0]) is torn_down


def test_a_fault_is_owed_from_before_it_is_done_until_it_is_undone_once_and_tells_how_long_it_lasted() -> None:
    undone: list[str] = []
    healing = Healing(lambda _: None)
    debt = Debt("let it go", lambda: undone.append("undone"))

    def strike() -> str:
        assert healing.owed == ["let it go"]
        return "who"

    assert healing.strike(debt, strike) == "who"
    assert (healing.owed, debt.lasted_s) == (["let it go"], None)
    time.sleep(0.05)
    healing.pay(debt)
    healing.pay(debt)
    healing.close(torn_down=False)
    assert (undone, healing.owed) == (["undone"], [])
    lasted_s = debt.lasted_s or 0.0
    assert lasted_s >= 0.05
    time.sleep(0.01)
    debt.settle()
    assert debt.lasted_s == lasted_s, "undoing it again is no part of it"
    assert healing.ended.is_set()


@pytest.mark.parametrize(("closing", "fails"), [(False, True), (True, True), (True, False)])
def test_what_fails_or_is_done_after_the_end_of_the_run_is_undone_at_once(*, closing: bool, fails: bool) -> None:
    struck: list[str] = []
    healing, debt = Healing(lambda _: None), Debt("let it go", struck.clear)

    def strike() -> None:
        if closing:
            healing.close(torn_down=False)
        struck.append("half of it")
        if fails:
            _failing()

    with pytest.raises(RuntimeError, match="cannot") if fails else nullcontext():
        healing.strike(debt, strike)
    assert (struck, healing.owed) == ([], [])
    assert debt.lasted_s is None or not fails
