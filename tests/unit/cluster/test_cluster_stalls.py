"""Stalls in pods: who is stopped by exec, what continues them, and a kubelet that is stopped through the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from tests.harness.adapters import held_pod
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.events import Watch
from tests.harness.adapters.held_pod import Held, server_held
from tests.harness.adapters.kubelet import MAIN
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.pod_log import DRIVER, EXECUTOR, Pod
from tests.harness.adapters.server_pods import Picked, ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.cluster_kubelet import GROUP, StalledKubelet
from tests.harness.faults.cluster_stalls import (
    StalledDriverPod,
    StalledExecutorPod,
    StalledNeighbourPod,
    StalledServerPod,
    StalledWorkerPod,
)
from tests.harness.faults.healing import Healing
from tests.harness.faults.stall import Stall
from tests.harness.history import History
from tests.harness.schedule import DECLARED, PlannedFault, Strike
from tests.harness.stall_sorts import STALL
from tests.unit.cluster.fake_platform import FakePlatform, node, server
from tests.unit.cluster.test_cluster_control_faults import FakeNodes
from tests.unit.cluster.test_cluster_held import POD, Container
from tests.unit.harness.sleepers import soon, state_of

DECLARATION = {"event": "epoch", "state": "declared", "epoch": 3}


class World:
    """A cluster with one container, and a pipeline whose pods a test names."""

    def __init__(self, folder: Path) -> None:
        self.container = Container(folder)
        self.platform = FakePlatform(server())
        self.platform.sessions = self.container.shell
        self.said: list[str] = []
        self.healing = Healing(self.said.append)
        self.ended = self.healing.ended
        self.watch = Watch(folder / "events.jsonl", History(folder / "history.jsonl"))
        self.pods = [POD]
        # The log of the pods is asked for those of a role.
        self.log = SimpleNamespace(pods=lambda role: [one for one in self.pods if one.role == role], pod=self.pod)
        self.driver = "driver-1"
        self.under: str | None = None
        self.armed: list[str] = []

    # What is asked of drivers and of the log of their pods.
    def executors(self) -> list[str]:
        return [one.who for one in self.pods if one.role == EXECUTOR and one.runs]

    def arm(self, kind: str) -> None:
        self.armed.append(kind)

    arm_driver = arm

    def running(self) -> Pod:
        return next(iter(one for one in self.pods if one.role == DRIVER and one.runs))

    def pod(self, uid: str) -> Pod | None:
        return next((one for one in self.pods if one.uid == uid), None)

    def gone(self, who: str) -> bool:
        return not any(one.who == who and one.runs for one in self.pods)

    def prepared(self, kind: Callable[..., Stall], held: Held, seconds: float = 0.2, **more: Any) -> Any:
        owed: dict[str, Any] = {"time_out_s": 600.0, "settle_s": 0.4, "healing": self.healing}
        fault = kind(cast("SupervisedPods", self), cast("Cluster", self.platform), held, **{**owed, **more})
        fault.prepare(PlannedFault(1, DECLARED, None, 0, Strike(STALL), planned_s=seconds))
        fault.arm()
        return fault

    def step(self, pid: int = 0, shard: int = 0, uid: str = "a") -> dict[str, Any]:
        who = {"shard": shard, "pid": pid, "pod": f"exec-{uid}", "pod_uid": uid}
        told = {"t": time.time_ns() // 1_000_000, "event": "step", "epoch": 3, **who}
        self.watch.seen.append(told)
        return told


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.healing.close(torn_down=True)
    made.container.close()


def test_an_executor_stalls_and_goes_on_with_the_time_taken(world: World) -> None:
    fault = world.prepared(StalledExecutorPod, held_pod.EXECUTOR, 0.3)
    ((who, _),) = fault.strike(world.step())
    assert who == "exec-a@a"
    soon("all to stand still", lambda: all(world.container.still))
    assert world.healing.owed == ["continue the executor in exec-a"]
    fault.endure()
    fault.heal()
    fault.heal()
    assert not any(world.container.still)
    assert world.healing.owed == []
    assert fault.after() == [who]
    assert fault.landed()
    told = fault.evidence()
    assert (told["planned_s"], told["response"]) == (0.3, "same")
    assert 0.3 <= told["stopped_s"] < 5


def test_an_executor_whose_pod_was_given_up_is_followed_by_another(world: World) -> None:
    fault = world.prepared(StalledExecutorPod, held_pod.EXECUTOR, 60.0)
    fault.strike(DECLARATION)
    world.pods = [replace(world.pods[0], deleting=True)]
    fault.endure()
    fault.heal()
    assert fault.after() == []
    assert not fault.landed()
    world.pods.append(Pod("exec-b", "b", EXECUTOR, "uc", "c", started=True))
    assert fault.after() == ["exec-b@b"]
    assert fault.evidence()["response"] == "executor replaced"
    assert fault.landed()


def test_a_pod_that_runs_no_more_or_was_not_there_is_missed(world: World) -> None:
    fault = world.prepared(StalledExecutorPod, held_pod.EXECUTOR)
    with pytest.raises(NoProcessError, match="does not run any more"):
        fault.strike(world.step(uid="x"))
    world.pods = []
    with pytest.raises(NoProcessError, match="there is no executor to stop"):
        fault.strike(DECLARATION)
    assert world.healing.owed == []


def test_the_pod_beside_the_one_that_reads_is_struck(world: World) -> None:
    fault = world.prepared(StalledNeighbourPod, held_pod.EXECUTOR)
    with pytest.raises(NoProcessError, match="there is no executor to stop"):
        fault.strike(world.step())
    world.pods.append(Pod("exec-b", "b", EXECUTOR, "uc", "c", started=True))
    ((who, _),) = fault.strike(world.step())
    assert who == "exec-b@b"
    fault.heal()


def test_one_that_does_not_stand_still_is_missed_and_owes_nothing(world: World) -> None:
    fault = world.prepared(StalledExecutorPod, held_pod.EXECUTOR)
    world.container.children[0].kill()
    with pytest.raises(NoProcessError, match=r"was not stopped \(moves"):
        fault.strike(world.step())
    assert world.healing.owed == []
    others = world.container.children[1:]
    soon("the others to go on", lambda: not any(state_of(one.pid) == psutil.STATUS_STOPPED for one in others))


def test_a_worker_is_named_by_its_pod_and_number_and_followed_when_it_ends(world: World) -> None:
    fault = world.prepared(StalledWorkerPod, held_pod.PYTHON_WORKER, watch=world.watch)
    ((who, _),) = fault.strike(world.step(world.container.first))
    assert who == f"exec-a@a/worker-{world.container.first}"
    fault.endure()
    fault.heal()
    assert fault.after() == [who]
    world.container.children[2].kill()
    assert fault.after() == []
    world.step(world.container.second, shard=1)
    assert fault.after() == [], "that is another shard"
    world.step(world.container.second)
    assert fault.after() == [f"exec-a@a/worker-{world.container.second}"]
    assert fault.evidence()["response"] == "python worker replaced"


def test_a_driver_stalls_and_another_has_to_have_taken_over(world: World) -> None:
    world.pods = [Pod("uc-driver", "d1", DRIVER, "uc", "c", started=True)]
    fault = world.prepared(StalledDriverPod, held_pod.DRIVER, watch=world.watch)
    ((who, at),) = fault.strike(DECLARATION)
    assert who == "uc-driver@d1"
    fault.endure()
    fault.heal()
    assert fault.after() == [who]
    world.pods = [Pod("uc-driver", "d2", DRIVER, "uc", "c", started=True)]
    assert fault.after() == []
    told = {"event": "driver", "state": "started", "pid": "uc-driver@d2", "t": at + 1}
    world.watch.seen.append(told)
    assert fault.after() == ["uc-driver@d2"]


def stalled_server(world: World, **more: Any) -> Any:
    pods = ServerPods(cast("Cluster", world.platform), "broker", "app=kafka", "java")
    return world.prepared(StalledServerPod, server_held("broker", "java"), server=pods, **more)


def test_a_server_stalls_with_what_is_below_it_and_serves_again(world: World) -> None:
    fault = stalled_server(world)
    ((who, _),) = fault.strike({})
    soon("all to stand still", lambda: all(world.container.still))
    assert world.under == "a stall of the broker"
    world.driver = "driver-2"
    fault.endure()
    fault.heal()
    assert world.under is None
    assert fault.after() == [who]
    assert fault.evidence()["response"] == "driver replaced"
    world.platform.there = [server(cid="c2")]
    assert fault.after() == ["kafka-0@aaaa-1/c2"]
    assert fault.evidence()["response"] == "broker replaced + driver replaced"


def test_a_server_that_does_not_serve_again_is_waited_for(world: World) -> None:
    fault = stalled_server(world)
    fault.strike({})
    world.platform.there = [server(ready=False)]
    with world.platform.gives_up("the broker to be ready"):
        fault.heal()
    assert not any(world.container.still)
    assert world.under is None


def test_of_several_brokers_the_one_that_leads_stalls(world: World) -> None:
    picks: list[Any] = []

    def pick(event: Any) -> Picked:
        picks.append(event)
        return Picked(ServerPods(cast("Cluster", world.platform), "broker", "a", "java").ready()[0], {"led": ["x/0"]})

    fault = stalled_server(world, pick=pick)
    fault.strike({"shard": 1})
    fault.heal()
    assert picks == [{"shard": 1}]
    assert fault.evidence()["led"] == ["x/0"]


class Machines(FakeNodes):
    """Nodes whose kubelet has a number."""

    pid = "812"

    def execute(self, on: str, *words: str) -> str:
        assert words == MAIN
        return f"{self.pid}\n"


def stalled_kubelet(world: World, nodes: Machines, seconds: float = 0.2) -> StalledKubelet:
    world.platform.there = [server(node="two"), server("kafka-1", "u2", "c2", node="two")]
    world.platform.nodes_there = [node("one"), node("two")]
    fault = StalledKubelet(
        cast("SupervisedPods", world),
        cast("Nodes", nodes),
        cast("Cluster", world.platform),
        time_out_s=600.0,
        healing=world.healing,
    )
    fault.prepare(PlannedFault(1, DECLARED, None, 0, Strike(STALL), planned_s=seconds))
    fault.arm()
    return fault


def test_the_kubelet_of_the_node_with_most_pods_stalls_and_its_node_is_well_again(world: World) -> None:
    nodes = Machines(world.platform)
    fault = stalled_kubelet(world, nodes)
    ((who, _),) = fault.strike({})
    assert who == "kubelet-812@two"
    assert nodes.done == [("stop", "two", {812: GROUP}, 30.2)]
    assert world.healing.owed == ["continue the kubelet of node two"]
    fault.endure()
    fault.heal()
    fault.heal()
    assert nodes.done[-1] == ("resume", "two", {812: GROUP})
    assert fault.after() == [who]
    told = fault.evidence()
    assert (told["node"], told["response"], told["planned_s"]) == ("two", "same", 0.2)
    assert told["stopped_s"] >= 0.2
    nodes.pid = "900"
    assert fault.after() == ["kubelet-900@two"]
    assert fault.evidence()["response"] == "kubelet replaced"


def test_what_is_stopped_was_found_before_the_epoch_or_is_looked_for_then(world: World) -> None:
    nodes = Machines(world.platform)
    fault = stalled_kubelet(world, nodes)
    nodes.pid = "900"
    assert fault.strike({})[0][0] == "kubelet-812@two"
    nodes.pid = "0"
    fault = stalled_kubelet(world, nodes)
    nodes.pid = "900"
    assert fault.strike({})[0][0] == "kubelet-900@two"


def test_a_node_that_is_not_well_again_is_waited_for(world: World) -> None:
    fault = stalled_kubelet(world, Machines(world.platform))
    fault.strike({})
    world.platform.nodes_there = [node("one"), node("two", ready=False)]
    with world.platform.gives_up("node two and its pods to be well again"):
        fault.heal()
    assert world.healing.owed == []


@pytest.mark.parametrize("pid", ["0", "", "no such unit"])
def test_a_node_without_a_kubelet_is_missed(world: World, pid: str) -> None:
    nodes = Machines(world.platform)
    nodes.pid = pid
    with pytest.raises(NoProcessError, match="no kubelet runs on node two"):
        stalled_kubelet(world, nodes).strike({})
    assert (nodes.done, world.healing.owed) == ([], [])


def test_a_kubelet_that_was_not_stopped_is_missed_and_continued(world: World) -> None:
    nodes = Machines(world.platform)
    nodes.refuse = "two"
    with pytest.raises(NoProcessError, match="no kubelet was stopped: gone on two"):
        stalled_kubelet(world, nodes).strike({})
    assert (nodes.done, world.healing.owed) == ([("resume", "two", {812: GROUP})], [])
