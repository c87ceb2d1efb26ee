"""Operator and driver struck together: in which order, what counts, and what is done where the operator is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import SIGKILL, NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.pod_log import Pod
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults import cluster_operator
from tests.harness.faults.cluster_operator import OperatorAtSubmission, OperatorWithDriver
from tests.harness.faults.healing import Healing
from tests.harness.platform_sorts import DRIVER_FIRST, OPERATOR_FIRST
from tests.unit.cluster.fake_platform import FakePlatform, server
from tests.unit.harness.test_armed import FakeSession

OPERATOR, AGAIN = server("operator-1", "o1", "c1"), server("operator-1", "o1", "c2", restarts=1)


def driver(uid: str, *, runs: bool = True) -> Pod:
    """A driver's pod."""
    return Pod("uc-driver", uid, "driver", "uc", "spark-kubernetes-driver", started=runs, created=uid)


class FakeDrivers:
    """Drivers of one application; `next_one` is called when one is killed."""

    name = "uc"

    def __init__(self, platform: FakePlatform, order: list[str]) -> None:
        self.cluster, self.log, self.known, self.order = platform, self, [driver("d1")], order
        self.next_one: Callable[[], None] = lambda: None
        self.noted: list[str] = []

    def arm_driver(self, kind: str) -> None:
        self.order.append(f"arm {kind}")

    def kill_driver(self, kind: str) -> Struck:
        self.order.append("driver")
        self.next_one()
        return "uc-driver@d1", time.time_ns() // 1_000_000

    def running(self) -> Pod:
        if not self.known[-1].runs:
            raise NoProcessError("none runs")
        return self.known[-1]

    def excuse(self, pod: Pod) -> None:
        self.noted.append(pod.uid)

    def pods(self, role: str) -> list[Pod]:
        return list(self.known)

    def pod(self, uid: str) -> Pod | None:
        return next((one for one in self.known if one.uid == uid), None)


class FakeWatch(Watch):
    """Announcements that a test makes."""

    def __init__(self) -> None:
        self.changed, self.seen = threading.Condition(), list[dict[str, Any]]()

    def took_over(self, uid: str) -> None:
        at = time.time_ns() // 1_000_000
        self.seen.append({"event": "driver", "state": "started", "pid": f"uc-driver@{uid}", "t": at})


class World:
    """An operator whose container comes again when it was killed, and a driver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster_operator, "SUBMITTED_S", 10.0)
        self.order: list[str] = []
        self.platform = FakePlatform(OPERATOR)
        self.drivers, self.watch = FakeDrivers(self.platform, self.order), FakeWatch()
        self.platform.states = ["RUNNING"]
        self.healing = Healing(self.order.append)
        self.ended = self.healing.ended
        platform, order = self.platform, self.order

        class Session(FakeSession):
            def write_stdin(self, data: str) -> None:
                super().write_stdin(data)
                order.append("operator")
                platform.there = [AGAIN]

        self.platform.sessions = lambda _: Session("armed 7", "kill 7")

    @property
    def _needs(self) -> tuple[ServerPods, SupervisedPods, Watch]:
        operator = ServerPods(cast("Cluster", self.platform), "operator", "app=operator", "spark-operator")
        return operator, cast("SupervisedPods", self.drivers), cast("Watch", self.watch)

    def pair(self, order: str) -> OperatorWithDriver:
        fault = OperatorWithDriver(*self._needs, order, healing=self.healing)
        fault.arm()
        return fault

    def at_submission(self) -> OperatorAtSubmission:
        fault = OperatorAtSubmission(*self._needs, healing=self.healing)
        fault.arm()
        return fault


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.mark.parametrize(
    ("order", "done"), [(OPERATOR_FIRST, ["operator", "driver"]), (DRIVER_FIRST, ["driver", "operator"])]
)
def test_both_fall_in_the_order_asked_for(world: World, order: str, done: list[str]) -> None:
    fault = world.pair(order)
    assert [who for who, _ in fault.strike({})] == ["uc-driver@d1", "operator-1@o1/c1"]
    assert world.order == [f"arm {SIGKILL}", *done]
    assert fault.evidence() == {"application_state": "RUNNING"}
    assert world.healing.owed == ["see the operator ready again"]
    fault.endure()
    fault.heal()
    assert world.healing.owed == []


def test_they_are_replaced_when_the_operator_serves_and_the_next_driver_has_taken_over(world: World) -> None:
    fault = world.pair(DRIVER_FIRST)
    fault.strike({})
    world.drivers.known.append(driver("d2"))
    assert fault.after() == [], "the driver has not taken the chain over"
    world.watch.took_over("d2")
    assert fault.after() == ["uc-driver@d2", "operator-1@o1/c2"]
    world.platform.there = [OPERATOR]
    assert fault.after() == [], "the operator is the one that was struck"


@pytest.mark.parametrize("state", ["FAILING", "PENDING_RERUN", "SUBMISSION_FAILED"])
def test_an_operator_that_had_noticed_the_drivers_end_is_missed(world: World, state: str) -> None:
    world.platform.states = [state]
    fault = world.pair(DRIVER_FIRST)
    with pytest.raises(NoProcessError, match=f"had noticed the driver's end: {state}"):
        fault.strike({})


def test_an_operator_that_cannot_be_entered_leaves_the_driver_alone(world: World) -> None:
    world.platform.sessions = lambda _: None
    fault = world.pair(DRIVER_FIRST)
    with pytest.raises(NoProcessError, match="cannot be entered"):
        fault.strike({})
    assert "driver" not in world.order


def comes(world: World, uid: str = "d2") -> None:
    """Have the next driver's pod come a moment after the former was killed."""
    world.drivers.next_one = lambda: threading.Timer(
        0.05, lambda: world.drivers.known.append(driver(uid, runs=False))
    ).start()


@pytest.mark.parametrize("at_once", [True, False])
def test_the_operator_falls_when_the_next_drivers_pod_is_there_and_no_status_tells_of_it(
    world: World, *, at_once: bool
) -> None:
    comes(world)
    if at_once:
        world.drivers.next_one = lambda: world.drivers.known.append(driver("d2", runs=False))
    world.platform.states = ["PENDING_RERUN"]
    fault = world.at_submission()
    assert [who for who, _ in fault.strike({})] == ["uc-driver@d1", "operator-1@o1/c1"]
    assert world.order == [f"arm {SIGKILL}", "driver", "operator"]
    assert fault.evidence() == {"application_state": "PENDING_RERUN", "healed_by_hand": False}


@pytest.mark.parametrize("state", ["SUBMITTED", "RUNNING"])
def test_a_submission_whose_status_was_written_is_missed(world: World, state: str) -> None:
    comes(world)
    world.platform.states = [state]
    fault = world.at_submission()
    with pytest.raises(NoProcessError, match=f"had written the submission's status: {state}"):
        fault.strike({})


def test_where_no_driver_follows_the_operator_lives(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_operator, "SUBMITTED_S", 0.5)
    fault = world.at_submission()
    with pytest.raises(NoProcessError, match="no driver followed uc-driver@d1"):
        fault.strike({})
    assert "operator" not in world.order


@pytest.mark.parametrize(
    ("states", "ends"),
    [(["PENDING_RERUN", "PENDING_RERUN", "SUBMITTED"], False), (["PENDING_RERUN"], True)],
    ids=["the operator finds back", "the run ends"],
)
def test_an_application_that_needs_it_no_more_is_left_alone(world: World, states: list[str], *, ends: bool) -> None:
    comes(world)
    world.platform.states = states
    fault = world.at_submission()
    fault.strike({})
    if ends:
        world.ended.set()
    fault.endure()
    fault.heal()
    assert not [one for one in world.platform.done if one[0] in ("delete", "patch")]
    assert fault.evidence()["healed_by_hand"] is False


def test_a_lost_operator_gets_the_pod_deleted_and_then_the_object_touched(world: World) -> None:
    """It drops the events of a pod whose submission it does not know, and submits only when no pod is there."""
    comes(world)
    world.platform.states = ["PENDING_RERUN"]
    world.platform.on_delete = world.drivers.known.clear
    fault = world.at_submission()
    fault.strike({})
    fault.endure()
    fault.heal()
    fault.heal()
    done = [one for one in world.platform.done if one[0] != "enter"]
    change = {"metadata": {"annotations": {cluster_operator.TOUCHED: "operator-1"}}}
    assert done == [("delete", "uc-driver", "d2", None), ("patch", "uc", change)]
    assert world.drivers.noted == ["d2"], "its end is no news"
    assert fault.evidence()["healed_by_hand"] is True


def test_as_long_as_the_pod_is_there_the_object_is_not_touched(world: World) -> None:
    comes(world)
    world.platform.states = ["PENDING_RERUN"]
    fault = world.at_submission()
    fault.strike({})
    with world.platform.gives_up("pod uc-driver to be gone"):
        fault.heal()
    assert not [one for one in world.platform.done if one[0] == "patch"]
