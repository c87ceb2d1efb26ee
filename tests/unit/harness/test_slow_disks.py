"""Slow disks: who is slowed and for how long, how it is undone, and that only what writes took counts."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.embedded.process import Child, identity
from infra.toolchain.command import ToolchainError
from infra.toolchain.strace import find_strace, find_tracers
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.slow_disk import SlowDisk, find_written_files
from tests.harness.faults.slow_disk import FAILURES, LEAST, SlowedServer
from tests.harness.faults.slowable import SlowableServer
from tests.harness.mixture import parse_faults, plan
from tests.harness.schedule import DECLARED, PlannedFault
from tests.harness.slow_disk_sorts import DELAYS_MS, SERVER_DISKS
from tests.unit.harness.sleepers import Server, soon
from tests.unit.harness.struck import World

WRITES = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
beside = os.open(sys.argv[1] + '.read', os.O_RDONLY | os.O_CREAT)
for line in sys.stdin:
    began = time.monotonic()
    if line == 'open\\n':
        os.close(os.open(sys.argv[1], os.O_RDONLY))
    else:
        os.write(file, b'x')
    print(time.monotonic() - began, flush=True)
"""
DELAY_S = max(DELAYS_MS) / 1000


@dataclass
class Disk:
    """Slows a probe, as far as it is told to."""

    slows: bool = True
    delay_ms: float = 0.0
    who: list[int] = field(default_factory=list)
    refuses: bool = False

    def attach(self, processes: list[psutil.Process], delay_ms: float) -> None:
        if self.refuses:
            raise NoProcessError("strace did not attach")
        self.who, self.delay_ms = [one.pid for one in processes], delay_ms

    def detach(self) -> None:
        self.delay_ms = 0.0

    def holds(self) -> bool:
        return self.delay_ms > 0

    def __call__(self) -> float:
        return 0.001 + (self.delay_ms / 1000 if self.slows else 0.0)


class Drivers:
    """Whom nobody starts."""

    under: str | None = None


@pytest.fixture
def server(world: World) -> Server:
    return world.server()


def fault(
    world: World, server: Server, disk: Any, probe: Callable[[], float] | None = None, seconds: float = 0.3
) -> SlowedServer:
    made = SlowedServer(
        Drivers(),
        SlowableServer(server),
        "broker",
        disk,
        probe or disk,  # type: ignore[arg-type]
        healing=world.healing,
    )
    made.prepare(PlannedFault(1, DECLARED, None, 0, SERVER_DISKS["broker-slow-disk"], planned_s=seconds))
    made.arm()
    return made


def struck(*given: Any, **more: Any) -> SlowedServer:
    """A slow disk that has come."""
    one = fault(*given, **more)
    one.strike({})
    return one


def lived(one: SlowedServer) -> dict[str, Any]:
    one.endure()
    one.heal()
    one.heal()
    return one.evidence()


def test_a_server_is_slow_as_long_as_planned_and_what_writes_took_is_told(world: World, server: Server) -> None:
    disk = Disk()
    one = fault(world, server, disk, seconds=1.0)
    ((who, _),) = one.strike({})
    assert who == identity(server.pid)
    assert disk.who == [server.pid]
    assert disk.delay_ms in DELAYS_MS
    assert world.healing.owed == ["let the disk of the broker be as fast as it was"]
    assert one._drivers.under == "a slow disk of the broker"
    told = lived(one)
    assert one._drivers.under is None
    assert not disk.holds()
    assert world.healing.owed == []
    assert one.landed()
    assert one.after() == [who], "the server is as it was"
    assert 1.0 <= told["slowed_s"] < 5
    assert told["planned_s"] == 1.0
    assert told["latency_ms"]["before"] == told["latency_ms"]["after"] == 1.0
    assert told["latency_ms"]["fastest"] == told["latency_ms"]["during"] == 1.0 + told["delay_ms"]


def test_it_lasts_longer_until_enough_was_written(world: World, server: Server) -> None:
    one = struck(world, server, Disk(), seconds=0.01)
    lived(one)
    assert len(one._took_ms["during"]) == LEAST
    assert one.landed()


def test_an_injector_that_does_not_slow_is_missed(world: World, server: Server) -> None:
    one = struck(world, server, Disk(slows=False))
    assert lived(one)["latency_ms"]["fastest"] == 1.0
    assert not one.landed()


def test_a_server_that_was_as_slow_before_shows_nothing(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.harness.faults.slow_disk.BUSY_S", 0.0)
    one = struck(world, server, Disk(), lambda: 0.5)
    lived(one)
    assert not one.landed()


def test_a_disk_that_others_keep_busy_is_waited_for(world: World, server: Server) -> None:
    disk = Disk()
    others = {"before": LEAST, "after": LEAST}

    def probe() -> float:
        when = "after" if disk.who else "before"
        if disk.holds() or not others[when]:
            return disk()
        others[when] -= 1
        return 1.0

    one = struck(world, server, disk, probe)
    told = lived(one)
    assert others == {"before": 0, "after": 0}
    assert told["latency_ms"]["before"] == told["latency_ms"]["after"] == 1.0
    assert one.landed()


def test_writes_that_are_given_up_tell_nothing(world: World, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.harness.faults.slow_disk.LONGEST_S", 0.4)
    disk = Disk()

    def probe() -> float:
        if disk.holds():
            raise TimeoutError
        return disk()

    one = struck(world, server, disk, probe, 0.2)
    assert set(lived(one)["latency_ms"]) == {"before", "after"}
    assert not one.landed()


def test_a_server_of_which_nobody_knows_how_fast_it_was_is_missed(world: World, server: Server) -> None:
    def probe() -> float:
        raise TimeoutError

    with pytest.raises(NoProcessError, match="how fast the broker writes is not known"):
        fault(world, server, Disk(), probe).strike({})
    assert world.healing.owed == []


def test_a_server_that_has_to_come_back_first_is_measured_then(world: World, server: Server) -> None:
    disk, failures = Disk(), [TimeoutError()] * FAILURES

    def probe() -> float:
        if failures:
            raise failures.pop()
        return disk()

    one = struck(world, server, disk, probe)
    assert lived(one)["latency_ms"]["before"] == 1.0


def test_a_server_that_is_down_or_cannot_be_attached_to_is_missed(world: World, server: Server) -> None:
    with pytest.raises(NoProcessError, match="did not attach"):
        fault(world, server, Disk(refuses=True)).strike({})
    assert server.child is not None
    server.child.kill()
    with pytest.raises(NoProcessError, match="does not run"):
        fault(world, server, Disk()).strike({})
    assert world.healing.owed == []


def test_the_end_of_a_run_undoes_it(world: World, server: Server) -> None:
    disk = Disk()
    one = struck(world, server, disk, seconds=600.0)
    world.ended.set()
    one.endure()
    world.healing.close(torn_down=True)
    assert not disk.holds()
    assert world.said == ["✓ healed at the end of the run: let the disk of the broker be as fast as it was"]
    assert not one.landed()


def test_the_end_of_a_run_undoes_it_while_strace_attaches(world: World, server: Server) -> None:
    class Attaches(Disk):
        def attach(self, processes: list[psutil.Process], delay_ms: float) -> None:
            world.healing.close(torn_down=False)
            super().attach(processes, delay_ms)

    disk = Attaches()
    one = struck(world, server, disk, seconds=600.0)
    assert not disk.holds()
    assert one._drivers.under is None


def test_it_ends_when_strace_does(world: World, server: Server) -> None:
    disk = Disk()
    one = struck(world, server, disk, seconds=600.0)
    threading.Timer(0.3, disk.detach).start()
    began = time.monotonic()
    lived(one)
    assert time.monotonic() - began < 60
    assert not one.landed()


def test_it_was_slow_no_longer_than_strace_is_known_to_have_held_it(world: World, server: Server) -> None:
    disk = Disk()

    def probe() -> float:
        if len(one._took_ms["during"]) < LEAST:
            return disk()
        # The server ends, and a write hangs until long after the plan; later ones are given up at once.
        if disk.holds():
            disk.detach()
            time.sleep(1.0)
        raise TimeoutError

    one = fault(world, server, disk, disk, seconds=1.5)
    one._probe = probe  # type: ignore[assignment]
    one.strike({})
    assert lived(one)["slowed_s"] < 1.5
    assert not one.landed()


def test_the_same_plan_draws_the_same_delay_and_plans_differ() -> None:
    planned = plan(3, parse_faults("slow-disks*6", 3), 2)
    drawn = []
    for one in planned:
        for _ in range(2):
            made = SlowedServer(Drivers(), None, "", None, lambda: 0.0, healing=None)  # type: ignore[arg-type]
            made.prepare(one)
            drawn.append(made._delay_ms)
    assert drawn[::2] == drawn[1::2]
    assert set(drawn) == set(DELAYS_MS)


def strace() -> Path:
    """The machine's own, where it may attach."""
    try:
        return find_strace()
    except ToolchainError as why:
        pytest.skip(str(why))


def test_without_strace_or_with_one_that_does_not_attach_there_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"there is no strace.*apt install strace"):
        find_strace()
    program = tmp_path / "strace"
    program.write_text(
        "#!/bin/sh\necho 'strace: attach: ptrace(PTRACE_SEIZE, 7): Operation not permitted' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ToolchainError, match=r"Operation not permitted.*apt install strace"):
        find_strace()


class Writer:
    """A process that writes, or opens, a file whenever it is asked, and says how long that took."""

    def __init__(self, folder: Path) -> None:
        self.file, ask = folder / "written", folder / "ask"
        os.mkfifo(ask)
        words = ["sh", "-c", 'exec "$0" "$@" <"$ASK"', sys.executable, "-c", WRITES, str(self.file)]
        self.child = Child("writer", words, folder / "writer.log", cwd=folder, env={"ASK": str(ask)})
        self._ask = ask.open("w")
        soon("its file", lambda: str(self.file) in find_written_files(self.child.pid))

    def took(self, what: str) -> float:
        before = self._answers()
        self._ask.write(f"{what}\n")
        self._ask.flush()
        soon("an answer", lambda: len(self._answers()) > len(before))
        return self._answers()[-1]

    def _answers(self) -> list[float]:
        return [float(line) for line in self.child.log.read_text().splitlines()]

    def close(self) -> None:
        self.child.kill()
        self._ask.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(("by_name", "slowed", "beside"), [(True, "write", None), (False, "open", "write")])
def test_calls_on_files_take_longer_until_it_is_undone(
    writer: Writer, tmp_path: Path, *, by_name: bool, slowed: str, beside: str | None
) -> None:
    """By name every call on files that are open to be written; else those that only files have, so no plain write."""
    disk = SlowDisk(strace(), tmp_path / "strace.log", by_name=by_name)
    assert writer.took(slowed) < DELAY_S
    disk.attach([psutil.Process(writer.child.pid)], 1000 * DELAY_S)
    assert disk.holds()
    assert writer.took(slowed) >= DELAY_S
    if beside is not None:
        assert writer.took(beside) < DELAY_S
    disk.detach()
    disk.detach()
    assert not disk.holds()
    assert find_tracers(writer.child.pid) == {0}
    assert writer.took(slowed) < DELAY_S
    assert find_written_files(writer.child.pid) == {str(writer.file)}


def test_who_has_ended_cannot_be_attached_to(writer: Writer, tmp_path: Path) -> None:
    disk, process = SlowDisk(strace(), tmp_path / "strace.log", by_name=False), psutil.Process(writer.child.pid)
    writer.child.kill()
    with pytest.raises(NoProcessError, match="strace did not attach"):
        disk.attach([process], 50)
    assert not disk.holds()
    with pytest.raises(NoProcessError, match="no file open to be written"):
        SlowDisk(strace(), tmp_path / "strace.log", by_name=True).attach([process], 50)


def test_a_server_runs_on_when_strace_is_killed(writer: Writer, tmp_path: Path) -> None:
    """As it is when the harness is: the kernel ends it then."""
    disk = SlowDisk(strace(), tmp_path / "strace.log", by_name=True)
    disk.attach([psutil.Process(writer.child.pid)], 1000 * DELAY_S)
    (pid,) = find_tracers(writer.child.pid)
    psutil.Process(pid).kill()
    soon("its end", lambda: not disk.holds())
    assert writer.took("write") < DELAY_S
