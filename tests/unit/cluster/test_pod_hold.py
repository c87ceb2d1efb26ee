"""A task in a pod is held at a point, killed there or let go: scripts in a real shell, the point of the library."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.harness.adapters import pod_hold
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.pod_hold import ENVIRONMENT, PodHold
from tests.harness.adapters.pod_log import EXECUTOR, Pod, PodLog
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.faults.transaction import Lost
from tests.harness.schedule import PlannedFault
from tests.unit.cluster.fake_platform import Shell

TASK = "from effectively_once.points import reach; reach('answered', epoch=3, shard=1, sink='charge'); print('on')"
WHERE = {"epoch": "[0-9]+", "shard": 1, "sink": "charge"}


class World:
    """Two executors, of which the second one has the task."""

    def __init__(self) -> None:
        self.all = {uid: Pod(f"exec-{uid}", uid, EXECUTOR, "app", "spark", started=True) for uid in ("a", "b")}
        self.entered: list[str] = []
        self.dumb = False

    def enter(self, pod: str, _container: str, script: str) -> Shell:
        self.entered.append(pod)
        # Each pod has a disk of its own.
        own = script.replace(pod_hold.FOLDER, f"{pod_hold.FOLDER}/{pod}")
        return Shell("read -r _ < /dev/null; echo" if self.dumb else own)

    def pods(self, _role: str) -> list[Pod]:
        return list(self.all.values())

    def pod(self, uid: str) -> Pod | None:
        return self.all.get(uid)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def hold(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PodHold:
    monkeypatch.setattr(pod_hold, "FOLDER", str(tmp_path / "points"))
    return PodHold(cast("Cluster", world), cast("Sequence[PodLog]", [world]))


@pytest.fixture
def task(hold: PodHold, tmp_path: Path) -> Iterator[Any]:
    """A process that comes by the point, begun by a call."""
    begun: list[subprocess.Popen[str]] = []

    def begin() -> subprocess.Popen[str]:
        (name,) = ENVIRONMENT
        env = {**os.environ, name: str(tmp_path / "points" / "exec-b")}
        begun.append(subprocess.Popen([sys.executable, "-c", TASK], env=env, stdout=subprocess.PIPE, text=True))
        return begun[-1]

    yield begin
    for one in begun:
        one.kill()
        one.communicate()


def test_who_comes_by_is_held_until_it_is_let_go(hold: PodHold, task: Any) -> None:
    hold.ask("answered", **WHERE)
    held = task()
    told = hold.held(10)
    where = {"pod": "exec-b", "pod_uid": "b"}
    assert told == {"point": "answered", "pid": held.pid, "epoch": 3, "shard": 1, "sink": "charge", **where}
    assert held.poll() is None
    hold.release()
    assert held.communicate(timeout=10)[0] == "on\n"


def test_another_shard_is_not_held(hold: PodHold, task: Any) -> None:
    hold.ask("answered", **{**WHERE, "shard": 0})
    assert task().communicate(timeout=10)[0] == "on\n"
    assert hold.held(0) is None


def test_asking_anew_forgets_what_was_held_before(hold: PodHold, task: Any) -> None:
    hold.ask("answered", **WHERE)
    first = task()
    assert hold.held(10)
    first.kill()
    hold.ask("answered", **WHERE)
    assert hold.held(0) is None
    second = task()
    assert (hold.held(10) or {})["pid"] == second.pid


def test_an_executor_that_does_not_take_it_makes_the_fault_miss(hold: PodHold, world: World) -> None:
    world.dumb = True
    with pytest.raises(NoProcessError, match="exec-a@a does not take"):
        hold.ask("answered", **WHERE)


def test_executors_that_have_ended_are_not_asked_again(hold: PodHold, world: World) -> None:
    hold.ask("answered", **WHERE)
    world.all.clear()
    world.entered.clear()
    assert hold.held(0) is None
    hold.release()
    assert world.entered == []


class Kill(Fault):
    """Ends the container of who announced the step, or leaves it be."""

    def __init__(self, world: World, *, ends: bool) -> None:
        self.world, self.ends = world, ends

    def strike(self, event: Any) -> list[Any]:
        if self.ends:
            del self.world.all[event["pod_uid"]]
        return [("exec-b@b", 1)]

    def after(self) -> list[str]:
        return []


@pytest.mark.parametrize("ends", [True, False])
def test_a_fault_lands_when_the_container_of_who_was_held_has_ended(
    hold: PodHold, world: World, task: Any, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    monkeypatch.setattr("tests.harness.faults.transaction.ENDED_S", 0.2)
    fault = Lost(Kill(world, ends=ends), hold, Healing(lambda _: None), hold.gone)
    fault.arm()
    fault.aim(PlannedFault(1, "answered", "charge", 1), exactly=True)
    event = {"step": "answered", "epoch": 3, "shard": 1, "sink": "charge", "pid": task().pid, "pod_uid": "b"}
    assert fault.strike(event) == [("exec-b@b", 1)]
    assert fault.landed() is ends
