"""API server, DNS and nodes: stopped or ended through the engine, continued or started again whatever happens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.pod_log import DRIVER, Pod
from tests.harness.adapters.server_pods import ServerPod, ServerPods, server_pod
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.adapters.tenancy import OURS
from tests.harness.faults.cluster_control import StoppedControl
from tests.harness.faults.cluster_node import RestartedNode
from tests.harness.faults.healing import Healing
from tests.unit.cluster.fake_platform import FakePlatform, node, server


class FakeNodes:
    """Nodes as data, and what was done to them."""

    def __init__(self, platform: FakePlatform) -> None:
        self.platform, self.done = platform, list[tuple[Any, ...]]()
        self.running = {"c1": 812, "c2": 813}
        self.refuse: str | None = None
        self.started, self.renewed = "2026-11-22T04:00:00Z", "2026-11-22T05:00:00Z"

    def process(self, on: str, container_id: str) -> int:
        if container_id not in self.running:
            raise NoProcessError(container_id)
        return self.running[container_id]

    def stop(self, on: str, containers: dict[int, str], at_most_s: float) -> None:
        if on == self.refuse:
            raise NoProcessError(f"gone on {on}")
        self.done.append(("stop", on, containers, at_most_s))
        self.platform.silent = True

    def resume(self, on: str, containers: dict[int, str]) -> None:
        self.done.append(("resume", on, containers))
        self.platform.silent = False

    def workers(self) -> list[str]:
        return ["one", "two"]

    def pods_on(self, on: str, selector: str) -> list[ServerPod]:
        assert selector == OURS
        return [pod for pod in map(server_pod, self.platform.there) if pod.node == on]

    def started_at(self, on: str) -> str:
        return self.started

    def renewed_at(self, on: str) -> str:
        return self.renewed

    def crash(self, on: str) -> None:
        self.done.append(("crash", on))

    def start(self, on: str) -> None:
        self.done.append(("start", on))
        self.started = "2026-11-22T06:00:00Z"


class FakeDrivers:
    """Drivers, of whom some were struck."""

    log = SimpleNamespace(
        pods=lambda role: [
            Pod("d", "u1", role, "uc-1", "c", started=True, node="two"),
            Pod("d", "u2", role, "uc-1", "c"),
        ]
    )

    def __init__(self) -> None:
        self.told: list[str] = []

    def excuse(self, pod: Pod) -> None:
        assert pod.role == DRIVER
        self.told.append(pod.uid)


class World:
    """A control plane of data."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.platform = FakePlatform(*pods)
        self.nodes, self.drivers = FakeNodes(self.platform), FakeDrivers()
        self.said: list[str] = []
        self.healing = Healing(self.said.append)
        self.ended = self.healing.ended

    def stopping(self, seconds: float = 0.2) -> StoppedControl:
        part = ServerPods(cast("Cluster", self.platform), "DNS", "k8s-app=kube-dns", "coredns", 2)
        fault = StoppedControl(part, cast("Nodes", self.nodes), seconds, healing=self.healing)
        fault.arm()
        return fault

    def restarting(self) -> RestartedNode:
        self.platform.nodes_there = [node("one"), node("two")]
        return RestartedNode(
            cast("Nodes", self.nodes),
            cast("Cluster", self.platform),
            cast("SupervisedPods", self.drivers),
            0.1,
            healing=self.healing,
        )


def dns() -> World:
    return World(server("dns-a", "u1", "c1", node="one"), server("dns-b", "u2", "c2", node="two"))


def test_a_part_stands_still_on_all_its_nodes_and_is_continued_without_the_api() -> None:
    world = dns()
    fault = world.stopping(0.2)
    struck = [who for who, _ in fault.strike({})]
    assert struck == ["dns-a@u1/c1", "dns-b@u2/c2"]
    assert world.platform.silent, "as long as it stands still, nobody answers"
    assert world.healing.owed == ["continue DNS"]
    fault.endure()
    fault.heal()
    fault.heal()
    assert world.nodes.done == [
        ("stop", "one", {812: "c1"}, 30.2),
        ("stop", "two", {813: "c2"}, 30.2),
        ("resume", "one", {812: "c1"}),
        ("resume", "two", {813: "c2"}),
    ]
    assert fault.after() == struck
    assert 0.2 <= fault.evidence()["stopped_s"] < 5


def test_a_part_that_could_not_be_stopped_everywhere_is_missed_and_goes_on() -> None:
    world = dns()
    world.nodes.refuse = "two"
    fault = world.stopping()
    with pytest.raises(NoProcessError, match="gone on two"):
        fault.strike({})
    assert ("resume", "one", {812: "c1"}) in world.nodes.done
    assert world.healing.owed == []


def test_a_part_of_which_not_every_process_was_found_is_missed() -> None:
    world = dns()
    del world.nodes.running["c2"]
    fault = world.stopping()
    with pytest.raises(NoProcessError, match="not every process"):
        fault.strike({})
    assert world.nodes.done == []


def test_a_part_is_back_only_when_the_nodes_are_well_too() -> None:
    world = dns()
    fault = world.stopping(0)
    fault.strike({})
    world.platform.nodes_there = [node("one"), node("two", ready=False)]
    with world.platform.gives_up("DNS and the nodes to be well again"):
        fault.heal()
    world.platform.nodes_there = [node("one"), node("two")]
    fault.heal()


def test_the_node_with_most_pods_fails_and_is_back_when_none_is_as_it_was() -> None:
    world = World(
        server("a", "u1", "c1", node="one"),
        server("b", "u2", "c2", node="two"),
        server("c", "u3", "c3", node="two"),
        server("d", "u4", "c4", node="two"),
    )
    fault = world.restarting()
    ((who, _),) = fault.strike({})
    assert who == "two@2026-11-22T04:00:00Z"
    assert world.drivers.told == ["u1"], "a driver that was on it was struck"
    assert world.healing.owed == ["start node two"]
    fault.endure()
    # One serves anew, one was replaced elsewhere; the third is told as it was.
    world.platform.there = [
        server("b", "u2", "c9", node="two"),
        server("c", "u9", "c8", node="one"),
        server("d", "u4", "c4", node="two"),
    ]
    world.nodes.renewed = "2026-11-22T06:00:03Z"
    with world.platform.gives_up(r"node two to be well again; last seen: \['d@u4/c4'\]"):
        fault.heal()
    world.platform.there[2] = server("d", "u4", "c7", node="two")
    fault.heal()
    assert world.nodes.done == [("crash", "two"), ("start", "two")]
    assert fault.after() == ["two@2026-11-22T06:00:00Z"]
    assert fault.evidence() == {"node": "two", "pods": ["b", "c", "d"]}


def test_a_node_of_which_the_api_only_remembers_is_not_back() -> None:
    """For some seconds it tells of a node what it heard before the failure: that all was well."""
    world = World(server("b", "u2", "c2", node="two"))
    fault = world.restarting()
    fault.strike({})
    world.platform.there = []
    with world.platform.gives_up():
        fault.heal()
    assert fault.after() == []
    world.nodes.renewed = "2026-11-22T06:00:01Z"
    fault.heal()
    assert fault.after() == ["two@2026-11-22T06:00:00Z"]


def test_nodes_without_a_pod_of_ours_are_not_struck() -> None:
    world = World(server("a", "u1", "c1", node="control-plane"))
    with pytest.raises(NoProcessError, match="no worker node has a pod of ours"):
        world.restarting().strike({})
    assert world.nodes.done == []


def test_a_node_that_is_down_is_started_when_the_run_ends() -> None:
    world = World(server("b", "u2", "c2", node="two"))
    world.restarting().strike({})
    world.healing.close(torn_down=False)
    assert world.nodes.done == [("crash", "two"), ("start", "two")]
