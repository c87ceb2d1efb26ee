"""Every fault of the embedded stack, on real processes: what it does to them, what undoes it, what it tells."""

from __future__ import annotations

import threading
import time
from typing import Any

import psutil
import pytest

from infra.embedded.process import Child, identity
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults import driver as of_drivers
from tests.harness.faults import executor as of_executors
from tests.harness.faults.driver import KilledDriver, ZombieDriver
from tests.harness.faults.executor import EndedExecutors, StoppedExecutor
from tests.harness.faults.second_driver import SecondDriver
from tests.harness.faults.server import KilledServer, StoppedServer
from tests.harness.faults.stopped import Stopped
from tests.harness.faults.worker import HungWorker, KilledWorker
from tests.unit.harness.sleepers import SLEEP, WITH_CHILD, Home, Server, soon
from tests.unit.harness.struck import World, stopped

STOP_S = 0.3


def test_who_has_ended_cannot_be_stopped(world: World) -> None:
    child = world.child()
    one = Stopped("sleeper", [psutil.Process(child.pid)], world.healing)
    child.kill()
    with pytest.raises(NoProcessError):
        one.stop()
    assert world.healing.owed == []


def test_who_stands_still_is_seen_though_the_machine_took_all_the_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = psutil.Process(world.child().pid)
    child.suspend()
    soon("it stands still", lambda: stopped(child.pid))
    monkeypatch.setattr("tests.harness.faults.stopped.STANDS_S", -1)
    one = Stopped("sleeper", [child], world.healing)
    assert one.stop()[0] == identity(child.pid)
    world.healing.pay(one.debt)


@pytest.fixture
def served(world: World) -> tuple[Server, psutil.Process]:
    """Return a server, and a process below it."""
    server = world.server(WITH_CHILD)
    (below,) = psutil.Process(server.pid).children()
    return server, below


def test_a_killed_server_goes_with_those_below_it_and_is_another_process_once_healed(
    world: World, served: tuple[Server, psutil.Process]
) -> None:
    server, below = served
    before = identity(server.pid)
    fault = KilledServer(server, 0.0, world.healing)
    ((who, at),) = fault.strike({})
    assert who == before
    soon("the end of both", lambda: not server.running() and not below.is_running())
    assert fault.after() == []
    assert world.healing.owed == ["start the test server again"]
    fault.endure()
    fault.heal()
    fault.heal()
    assert server.starts == 1
    assert fault.after() == [identity(server.pid)] != [before]
    assert abs(at - time.time_ns() // 1_000_000) < 60_000


def test_a_stopped_server_stands_still_with_those_below_it_and_is_the_same_process_afterwards(
    world: World, served: tuple[Server, psutil.Process]
) -> None:
    server, below = served
    fault = StoppedServer(server, STOP_S, world.healing)
    ((who, _),) = fault.strike({})
    assert (stopped(server.pid), stopped(below.pid)) == (True, True)
    fault.endure()
    assert stopped(server.pid)
    fault.heal()
    assert (stopped(server.pid), stopped(below.pid)) == (False, False)
    assert fault.after() == [who]
    assert fault.evidence()["stopped_s"] >= STOP_S


def test_a_killed_worker_is_followed_by_the_one_that_takes_its_shard(world: World) -> None:
    worker, other, next_one = (world.child(name=name) for name in ("worker", "other", "next"))
    fault = KilledWorker(world.watch)
    ((who, _),) = fault.strike(world.step(worker.pid))
    assert who == f"{worker.pid}@{who.partition('@')[2]}"
    soon("its end", lambda: not worker.running())
    world.step(other.pid, shard=1)
    world.step(other.pid, epoch=2)
    world.step(worker.pid)
    assert fault.after() == []
    world.step(next_one.pid)
    assert fault.after() == [identity(next_one.pid)]


def test_a_worker_that_has_ended_is_missed(world: World) -> None:
    worker = world.child()
    worker.kill()
    with pytest.raises(NoProcessError):
        KilledWorker(world.watch).strike(world.step(worker.pid))


def test_a_hung_worker_is_waited_for_until_somebody_ends_it(world: World) -> None:
    worker, next_one = world.child(name="worker"), world.child(name="next")
    fault = HungWorker(world.watch, 600, world.healing)
    fault.strike(world.step(worker.pid))
    assert stopped(worker.pid)
    ender = threading.Timer(STOP_S, worker.kill)
    ender.start()
    fault.endure()
    fault.heal()
    assert fault.evidence()["stopped_s"] >= STOP_S
    assert fault.after() == []
    world.step(next_one.pid)
    assert fault.after() == [identity(next_one.pid)]


def test_a_hung_worker_that_nobody_ends_goes_on(world: World) -> None:
    worker = world.child()
    fault = HungWorker(world.watch, STOP_S, world.healing)
    ((who, _),) = fault.strike(world.step(worker.pid))
    fault.endure()
    assert stopped(worker.pid)
    fault.heal()
    assert fault.after() == [who]


class Executors:
    """Executors as drivers name them."""

    def __init__(self, *children: Child) -> None:
        self.children = list(children)

    def executors(self) -> list[str]:
        return [who for one in self.children if one.running() and (who := identity(one.pid)) is not None]

    def gone(self, who: str) -> bool:
        return who not in self.executors()

    def arm(self, kind: str) -> None: ...

    def kill_executor(self, event: dict[str, Any], kind: str) -> tuple[str, int]:
        (child,) = (one for one in self.children if one.pid == event["pid"])
        who = identity(child.pid) or ""
        child.kill()
        return who, 1

    def kill_executors(self, kind: str) -> list[tuple[str, int]]:
        return [self.kill_executor({"pid": one.pid}, kind) for one in self.children]


def test_executors_are_replaced_when_as_many_fresh_ones_are_there(world: World) -> None:
    drivers = Executors(world.child(name="a"), world.child(name="b"))
    fault = EndedExecutors(drivers, "sigkill", everyone=True)  # type: ignore[arg-type]
    assert len(fault.strike({})) == 2
    drivers.children.append(world.child(name="c"))
    assert fault.after() == []
    drivers.children.append(world.child(name="d"))
    assert fault.after() == drivers.executors()
    assert len(fault.after()) == 2


def test_a_stopped_executor_stands_still_with_its_workers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = world.child(WITH_CHILD, "executor")
    (worker,) = psutil.Process(executor.pid).children()
    monkeypatch.setattr(of_executors, "executor_of", lambda _: psutil.Process(worker.pid).parent())
    drivers = Executors(executor)
    fault = StoppedExecutor(drivers, STOP_S, world.healing)  # type: ignore[arg-type]
    ((who, _),) = fault.strike(world.step(worker.pid))
    assert stopped(executor.pid)
    assert stopped(worker.pid)
    fault.endure()
    fault.heal()
    assert not stopped(worker.pid)
    assert fault.after() == [who]
    drivers.children.append(world.child(name="fresh"))
    assert fault.after() == [identity(drivers.children[1].pid)]
    assert fault.evidence()["stopped_s"] >= STOP_S


def supervised(world: World, *codes: str) -> SupervisedDrivers:
    home = Home(world.folder, list(codes) or [WITH_CHILD])
    drivers = SupervisedDrivers(home, "m", world.watch.path, history=world.history, say=world.said.append)  # type: ignore[arg-type]
    drivers.start("driver", world.folder / "settings.json")
    world.at_end.append(drivers.end)
    return drivers


def test_a_killed_driver_is_followed_by_one_that_has_taken_over(world: World) -> None:
    drivers = supervised(world)
    first = drivers.driver
    assert first is not None
    fault = KilledDriver(drivers, world.watch)
    ((who, _),) = fault.strike({})
    assert who.startswith(f"{first}@")
    soon("the next driver", lambda: drivers.driver != first)
    assert fault.after() == []
    world.announce(event="driver", state="started", pid=drivers.driver, generation=2)
    assert fault.after() == [identity(drivers.driver or 0)]


REFUSED = f"""
import os, sys, time
from pathlib import Path
print('up', flush=True)
while not Path('stale').exists():
    time.sleep(0.01)
print('{of_drivers.STALE}: driver a was replaced by b of generation 2', flush=True)
os._exit({of_drivers.STALE_EXIT})
"""


def refused(world: World, code: int = of_drivers.STALE_EXIT) -> tuple[SupervisedDrivers, int]:
    """A driver that ends so once there is a file `stale`, and is up."""
    drivers = supervised(world, REFUSED.replace(f"_exit({of_drivers.STALE_EXIT})", f"_exit({code})"), SLEEP)
    assert drivers.driver is not None
    soon("the driver to be up", lambda: "up" in (world.folder / "driver-1.log").read_text())
    return drivers, drivers.driver


def test_a_zombie_wakes_when_the_other_driver_has_published_and_ends_by_its_refusal(world: World) -> None:
    drivers, first = refused(world)
    fault = ZombieDriver(drivers, world.watch, 20.0, world.healing)
    ((who, _),) = fault.strike({})
    assert stopped(first)
    waiting = threading.Thread(target=fault.endure)
    waiting.start()
    soon("the other driver", lambda: drivers.driver != first)
    world.announce(event="driver", state="started", pid=drivers.driver, generation=2)
    world.announce(event="epoch", epoch=3, state="published", driver=first)
    waiting.join(1.0)
    assert waiting.is_alive(), "what the zombie published itself does not wake it"
    world.announce(event="epoch", epoch=3, state="published", driver=drivers.driver)
    waiting.join(20.0)
    assert stopped(first)
    fault.heal()
    assert not stopped(first)
    assert fault.after() == []
    assert fault.evidence()["refusal"] is None
    (world.folder / "stale").touch()
    soon("its end", lambda: fault.after() != [])
    assert fault.after() == [identity(drivers.driver or 0)] != [who]
    assert fault.evidence()["refusal"].startswith("exit code 75: StaleDriverError: driver a was replaced")


def test_a_zombie_that_ends_otherwise_has_no_refusal(world: World) -> None:
    drivers, _ = refused(world, 70)
    fault = ZombieDriver(drivers, world.watch, 20.0, world.healing)
    fault.strike({})
    drivers.start_beside()
    fault.heal()
    (world.folder / "stale").touch()
    soon("its end", lambda: not drivers.home.started[0].running())  # type: ignore[attr-defined]
    assert fault.evidence()["refusal"] is None


def test_a_second_driver_starts_beside_the_first_one_which_ends_by_its_refusal(world: World) -> None:
    drivers, first = refused(world)
    fault = SecondDriver(drivers, world.watch, 20.0, world.ended)
    ((who, at),) = fault.strike({})
    assert who == identity(first)
    assert drivers.driver != first
    assert not stopped(first), "nobody stops or kills the first one"
    waiting = threading.Thread(target=fault.endure)
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive(), "the second one has not taken over"
    world.announce(event="driver", state="started", pid=drivers.driver, generation=2)
    waiting.join(20.0)
    fault.heal()
    assert fault.after() == [], "the first one still runs"
    assert not fault.landed()
    (world.folder / "stale").touch()
    soon("its end", lambda: fault.after() != [])
    assert fault.after() == [identity(drivers.driver or 0)] != [who]
    assert fault.landed()
    assert fault.evidence()["refusal"].startswith("exit code 75: StaleDriverError: driver a was replaced")
    assert at <= time.time_ns() // 1_000_000


def test_a_first_driver_that_ends_otherwise_has_not_learnt_that_it_was_replaced(world: World) -> None:
    drivers, _ = refused(world, 70)
    fault = SecondDriver(drivers, world.watch, 20.0, world.ended)
    fault.strike({})
    world.announce(event="driver", state="started", pid=drivers.driver, generation=2)
    (world.folder / "stale").touch()
    soon("its end", lambda: fault.after() != [])
    assert not fault.landed()


def test_no_second_driver_starts_where_there_is_no_first_one(world: World) -> None:
    drivers = supervised(world)
    drivers.end()
    with pytest.raises(NoProcessError):
        SecondDriver(drivers, world.watch, 20.0, world.ended).strike({})
    assert len(drivers.home.started) == 1  # type: ignore[attr-defined]
