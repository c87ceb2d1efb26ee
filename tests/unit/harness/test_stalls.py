"""Stalls on real processes: who stands still, who runs on, when it ends, and what is told of it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.embedded.process import Child, identity, kill_all
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.faults import stalls
from tests.harness.faults.stall import Stall
from tests.harness.faults.stalls import (
    StalledDriver,
    StalledExecutor,
    StalledNeighbours,
    StalledServer,
    StalledWorker,
    workers,
)
from tests.harness.faults.transaction import WhileHeld
from tests.harness.schedule import DECLARED, PlannedFault, Strike
from tests.harness.stall_sorts import STALL
from tests.unit.harness.sleepers import SLEEP, WITH_CHILD, soon
from tests.unit.harness.struck import World, stopped
from tests.unit.harness.test_faults_on_processes import supervised

LONG_S = 600.0
_families: dict[int, list[psutil.Process]] = {}
DECLARATION = {"event": "epoch", "state": "declared", "epoch": 3}
WITH_WORKER = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WITH_CHILD!r}]); {SLEEP}"
"""A process that stands for an executor: what forks workers is below it, and the worker below that."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    # What a killed parent left is not below anybody any more.
    left = [one for child in made.children for one in _families.pop(child.pid, [])]
    made.close()
    kill_all([one for one in left if one.is_running()])


def planned(seconds: float, step: str = DECLARED, shard: int = 0) -> PlannedFault:
    return PlannedFault(1, step, None, shard, Strike(STALL), planned_s=seconds)


def prepared(fault: Stall, seconds: float = 0.3, shard: int = 0) -> Stall:
    fault.prepare(planned(seconds, shard=shard))
    fault.arm()
    return fault


class Pipeline:
    """A driver, and executors with a worker each, as faults see them."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, count: int = 2) -> None:
        self.world, self.executors_there = world, [world.child(WITH_WORKER, f"executor-{n}") for n in range(count)]
        self.child = world.child(name="driver")
        self.under: str | None = None
        for one in self.executors_there:
            _families[one.pid] = below(one)
        monkeypatch.setattr(stalls, "executors", lambda _: [psutil.Process(one.pid) for one in self._alive()])
        monkeypatch.setattr(stalls, "executor_of", self._executor_of)

    @property
    def driver(self) -> int:
        return self.child.pid

    def executors(self) -> list[str]:
        return [who for one in self._alive() if (who := identity(one.pid)) is not None]

    def stalled(self, kind: type[Stall], *more: Any, seconds: float = 0.3, shard: int = 0, **own: Any) -> Stall:
        """A stall of it, armed; `alone` and `owed` where it has some of its own."""
        owed = own.pop("owed", None) or self.owed()
        of_jvms = {"alone": own.get("alone", False)} if issubclass(kind, StalledExecutor) else {}
        return prepared(kind(self, *more, **of_jvms, **owed), seconds, shard)  # type: ignore[arg-type, misc]

    def owed(self, time_out_s: float = LONG_S, settle_s: float = 0.5) -> dict[str, Any]:
        world = self.world
        return {"time_out_s": time_out_s, "settle_s": settle_s, "healing": world.healing}

    def worker(self, number: int) -> int:
        found: int
        (found,) = [one.pid for one in workers(0) if self._executor_of(one.pid).pid == self.executors_there[number].pid]
        return int(found)

    def start_executor(self) -> Child:
        self.executors_there.append(self.world.child(name=f"executor-{len(self.executors_there)}"))
        return self.executors_there[-1]

    def _alive(self) -> list[Child]:
        return [one for one in self.executors_there if one.running()]

    def _executor_of(self, pid: int) -> psutil.Process:
        mine = [one.pid for one in self.executors_there]
        return next(one for one in psutil.Process(pid).parents() if one.pid in mine)


@pytest.fixture
def pipeline(world: World, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Pipeline:
    """Return a pipeline with two executors, or as many as a test has."""
    return Pipeline(world, monkeypatch, getattr(request, "param", 2))


def with_executors(count: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("pipeline", [count], indirect=True, ids=[f"{count} executors"])


def below(child: Child) -> list[psutil.Process]:
    """What forks workers, and the worker, once both are there and the worker runs its own program.

    Until then it holds up whoever forked it (vfork), which a signal would not reach while the worker stands still.
    """

    def find() -> list[psutil.Process]:
        return list(psutil.Process(child.pid).children(recursive=True))

    soon("its worker", lambda: [one.cmdline()[-1] for one in find()] == [WITH_CHILD, SLEEP])
    return find()


def family(child: Child) -> list[int]:
    return [child.pid, *(one.pid for one in psutil.Process(child.pid).children(recursive=True))]


def test_an_executor_stands_still_with_its_workers_as_long_as_planned(world: World, pipeline: Pipeline) -> None:
    first, second = pipeline.executors_there
    fault = pipeline.stalled(StalledExecutor, seconds=0.4)
    ((who, _),) = fault.strike(world.step(pipeline.worker(0)))
    assert who == identity(first.pid)
    assert all(stopped(pid) for pid in family(first))
    assert not any(stopped(pid) for pid in family(second))
    assert world.healing.owed == [f"continue executor {first.pid}"]
    fault.endure()
    fault.heal()
    fault.heal()
    assert not any(stopped(pid) for pid in family(first))
    assert world.healing.owed == []
    assert fault.after() == [who]
    assert fault.landed()
    told = fault.evidence()
    assert (told["planned_s"], told["response"]) == (0.4, "same")
    assert 0.4 <= told["stopped_s"] < 5


@with_executors(1)
def test_of_a_jvm_that_stalls_alone_the_workers_run_on(world: World, pipeline: Pipeline) -> None:
    (one,) = pipeline.executors_there
    fault = pipeline.stalled(StalledExecutor, alone=True)
    fault.strike(world.step(pipeline.worker(0)))
    assert [stopped(pid) for pid in family(one)] == [True, False, False]
    fault.heal()


def test_every_executor_but_the_one_that_reads_stalls(world: World, pipeline: Pipeline) -> None:
    first, second = pipeline.executors_there
    fault = pipeline.stalled(StalledNeighbours)
    ((who, _),) = fault.strike(world.step(pipeline.worker(0)))
    assert who == identity(second.pid)
    assert all(stopped(pid) for pid in family(second))
    assert not any(stopped(pid) for pid in family(first))
    fault.heal()
    assert not any(stopped(pid) for pid in family(second))


@with_executors(1)
def test_an_executor_without_neighbours_is_missed(world: World, pipeline: Pipeline) -> None:
    fault = pipeline.stalled(StalledNeighbours)
    with pytest.raises(NoProcessError, match="no executor beside that of worker"):
        fault.strike(world.step(pipeline.worker(0)))
    assert world.healing.owed == []


def test_after_a_declaration_the_plan_draws_the_executor(world: World, pipeline: Pipeline) -> None:
    struck = []
    for shard in [0, 0, *range(1, 12)]:
        fault = pipeline.stalled(StalledExecutor, shard=shard)
        ((who, _),) = fault.strike(DECLARATION)
        fault.heal()
        struck.append(who)
    assert struck[0] == struck[1], "the same plan takes the same one"
    assert set(struck) == set(pipeline.executors())


def test_an_executor_that_was_given_up_is_followed_by_another_and_that_is_told(
    world: World, pipeline: Pipeline
) -> None:
    owed = pipeline.owed(time_out_s=0.1, settle_s=30.0)
    fault = pipeline.stalled(StalledExecutor, owed=owed)
    ((who, _),) = fault.strike(DECLARATION)
    victim = next(one for one in pipeline.executors_there if identity(one.pid) == who)
    # As Spark does it: the signal reaches who stands still with the SIGCONT.
    psutil.Process(victim.pid).send_signal(signal.SIGTERM)
    fault.endure()
    assert stopped(victim.pid)
    fault.heal()
    soon("its end", lambda: not victim.running())
    assert fault.after() == [], "nobody is there in its place"
    fresh = pipeline.start_executor()
    assert fault.after() == [identity(fresh.pid)]
    assert fault.evidence()["response"] == "executor replaced"
    assert fault.landed()


def test_who_outlasted_a_time_out_is_the_same_only_once_it_had_time_to_end(world: World, pipeline: Pipeline) -> None:
    owed = pipeline.owed(time_out_s=0.1, settle_s=0.6)
    fault = pipeline.stalled(StalledExecutor, owed=owed)
    ((who, _),) = fault.strike(DECLARATION)
    fault.endure()
    fault.heal()
    assert fault.after() == []
    soon("it to count as the same", lambda: fault.after() == [who])
    assert fault.evidence()["response"] == "same"


@with_executors(1)
def test_an_executor_whose_workers_stand_still_stalls_on_when_its_jvm_is_killed(
    world: World, pipeline: Pipeline
) -> None:
    fault = pipeline.stalled(StalledExecutor, seconds=1.0)
    workers_there = family(pipeline.executors_there[0])[1:]
    fault.strike(DECLARATION)
    psutil.Process(pipeline.executors_there[0].pid).kill()
    began = time.monotonic()
    fault.endure()
    assert time.monotonic() - began >= 0.9
    assert all(stopped(pid) for pid in workers_there)
    fault.heal()
    assert not any(stopped(pid) for pid in workers_there)


def test_a_stall_ends_when_nobody_is_left_who_stands_still(world: World, pipeline: Pipeline) -> None:
    fault = pipeline.stalled(StalledExecutor, seconds=LONG_S, alone=True)
    ((who, _),) = fault.strike(DECLARATION)
    victim = next(one for one in pipeline.executors_there if identity(one.pid) == who)
    psutil.Process(victim.pid).kill()
    fault.endure()
    fault.heal()
    assert fault.after() == []
    assert not fault.landed(), "it did not stand still as long as planned, and nobody took its place"
    fresh = pipeline.start_executor()
    assert fault.after() == [identity(fresh.pid)]
    assert fault.landed()


def test_a_stall_that_the_end_of_the_run_cuts_short_did_not_land(world: World, pipeline: Pipeline) -> None:
    fault = pipeline.stalled(StalledExecutor, seconds=LONG_S)
    ((who, _),) = fault.strike(DECLARATION)
    world.ended.set()
    fault.endure()
    world.healing.close(torn_down=True)
    assert not stopped(int(who.partition("@")[0]))
    assert world.said == [f"✓ healed at the end of the run: continue executor {who.partition('@')[0]}"]
    assert fault.after() == [who]
    assert not fault.landed()


def test_a_worker_stalls_alone_and_the_next_one_takes_its_shard(world: World, pipeline: Pipeline) -> None:
    fault = pipeline.stalled(StalledWorker, world.watch)
    pid = pipeline.worker(0)
    ((who, _),) = fault.strike(world.step(pid))
    assert who == identity(pid)
    assert [stopped(one) for one in family(pipeline.executors_there[0])] == [False, False, True]
    fault.endure()
    fault.heal()
    assert fault.after() == [who]
    psutil.Process(pid).kill()
    soon("its end", lambda: fault.after() == [])
    other = pipeline.worker(1)
    world.step(other, shard=1)
    assert fault.after() == [], "that is another shard"
    world.step(other)
    assert fault.after() == [identity(other)]
    assert fault.evidence()["response"] == "python worker replaced"


def test_after_a_declaration_the_plan_draws_the_worker(world: World, pipeline: Pipeline) -> None:
    struck = set()
    for shard in range(12):
        fault = pipeline.stalled(StalledWorker, world.watch, shard=shard)
        struck |= {who for who, _ in fault.strike(DECLARATION)}
        fault.heal()
    assert struck == {identity(pipeline.worker(0)), identity(pipeline.worker(1))}
    world.step(pipeline.worker(1), shard=1)
    assert fault.after() != []


@with_executors(0)
def test_where_there_is_no_worker_or_driver_a_stall_misses(world: World, pipeline: Pipeline) -> None:
    for fault in (pipeline.stalled(StalledWorker, world.watch), pipeline.stalled(StalledExecutor)):
        with pytest.raises(NoProcessError, match="there is no"):
            fault.strike(DECLARATION)
    pipeline.child.kill()
    with pytest.raises(NoProcessError, match="no driver runs"):
        pipeline.stalled(StalledExecutor).strike(DECLARATION)
    assert world.healing.owed == []


def test_a_driver_stalls_and_its_executors_run_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    drivers = supervised(world, WITH_WORKER)
    pid = drivers.driver
    assert pid is not None
    assert drivers.child is not None
    jvm, executor = below(drivers.child)
    monkeypatch.setattr(stalls, "executors", lambda _: [executor])
    owed = {"time_out_s": 0.1, "settle_s": 0.5, "healing": world.healing}
    fault = prepared(StalledDriver(drivers, world.watch, **owed))
    ((who, _),) = fault.strike(DECLARATION)
    assert [stopped(one) for one in (pid, jvm.pid, executor.pid)] == [True, True, False]
    fault.endure()
    fault.heal()
    assert not stopped(jvm.pid)
    soon("it to count as the same", lambda: fault.after() == [who])
    assert fault.evidence()["response"] == "same"
    psutil.Process(pid).kill()
    kill_all([jvm, executor])
    soon("the next driver", lambda: drivers.driver != pid)
    assert fault.after() == [], "it has not taken over"
    world.announce(event="driver", state="started", pid=drivers.driver, generation=2)
    assert fault.after() == [identity(drivers.driver or 0)]
    assert fault.evidence()["response"] == "driver replaced"


@with_executors(1)
def test_drivers_that_end_while_a_server_stalls_do_not_break_the_run_off(world: World, pipeline: Pipeline) -> None:
    server = world.server()
    fault = pipeline.stalled(StalledServer, server, "broker")
    ((who, _),) = fault.strike({})
    assert stopped(server.pid)
    assert pipeline.under == "a stall of the broker"
    pipeline.child = world.child(name="next-driver")
    fault.endure()
    fault.heal()
    assert pipeline.under is None
    assert not stopped(server.pid)
    assert fault.after() == [who]
    assert fault.evidence()["response"] == "driver replaced"
    psutil.Process(server.pid).kill()
    soon("its end", lambda: fault.after() == [])


@with_executors(0)
def test_a_stall_at_an_open_transaction_gets_its_length_too(world: World, pipeline: Pipeline) -> None:
    server = world.server()
    hold = type("H", (), {"release": lambda _: None})()
    inner = pipeline.stalled(StalledServer, server, "result store")
    fault = WhileHeld(inner, hold, world.healing)
    fault.prepare(planned(0.2))
    inner.strike({})
    fault.endure()
    fault.heal()
    assert fault.evidence()["planned_s"] == 0.2
    assert 0.2 <= fault.evidence()["stopped_s"] < 5
