"""A suite may do anything: it is ended at its limits of memory and time, and nothing of it is left."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from infra.embedded.process import wait_for
from tests.planted.limits import GIB, Ended, Limits, run_limited

EATS = "held = []\nwhile True: held.append(bytearray(1 << 24))"
BELOW = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"
SLEEPS = "import time; time.sleep(600)"
MIB = 1 << 20


def ended(tmp_path: Path, limits: Limits, *argv: str) -> Ended:
    return run_limited([sys.executable, "-c", *argv], cwd=tmp_path, env={}, log=tmp_path / "log", limits=limits)


@pytest.mark.parametrize("argv", [(EATS,), (BELOW, EATS)])
def test_a_program_that_allocates_without_end_gets_no_more_than_its_limit(
    argv: tuple[str, ...], tmp_path: Path
) -> None:
    """Nor does one that it starts: a planted bug once took 22 GB, and the machine with it."""
    found = ended(tmp_path, Limits(60.0, resident_bytes=4 * GIB, address_bytes=512 * MIB), *argv)
    assert (found.how, found.code) == ("exit", 1)
    assert "MemoryError" in (tmp_path / "log").read_text()


def test_processes_that_take_too_much_together_are_ended(tmp_path: Path) -> None:
    """As where the address space cannot be limited: a JVM reserves what it does not use."""
    found = ended(tmp_path, Limits(60.0, resident_bytes=200 * MIB, address_bytes=None), BELOW, EATS)
    assert (found.how, found.code) == ("memory", None)


def test_at_its_deadline_a_program_is_ended_and_all_that_it_started(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys, time, pathlib\n"
        "below = subprocess.Popen([sys.executable, '-c', sys.argv[1]])\n"
        "pathlib.Path('pids').write_text(f'{os.getpid()} {below.pid}')\n"
        "time.sleep(600)"
    )
    found = ended(tmp_path, Limits(3.0), script, SLEEPS)
    assert (found.how, found.code) == ("time", None)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert not any(_runs(pid) for pid in pids)


def test_what_a_program_leaves_in_its_group_is_ended_with_it(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, pathlib\n"
        "below = subprocess.Popen([sys.executable, '-c', sys.argv[1]])\n"
        "pathlib.Path('pids').write_text(str(below.pid))"
    )
    assert ended(tmp_path, Limits(60.0), script, SLEEPS).code == 0
    left = int((tmp_path / "pids").read_text())
    wait_for("the end of what was left", 10.0, lambda: not _runs(left))


def test_the_usual_limit_is_four_gibibytes() -> None:
    assert (Limits(1.0).address_bytes, Limits(1.0).resident_bytes) == (4 * GIB, 4 * GIB)


def _runs(pid: int) -> bool:
    if not Path(f"/proc/{pid}").exists() or pid == os.getpid():
        return False
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
