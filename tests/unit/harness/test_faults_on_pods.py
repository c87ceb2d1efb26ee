"""Faults of drivers in pods: who took over, and a zombie that is cut off, woken, refused, and its node given back."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.adapters.drivers import DELETE_NOW, SIGKILL, NoProcessError
from tests.harness.adapters.events import WaitTimedOutError, Watch
from tests.harness.adapters.pod_log import DRIVER
from tests.harness.faults import cluster_zombie
from tests.harness.faults.cluster_arsenal import heal_nodes
from tests.harness.faults.cluster_driver import EndedDriver
from tests.harness.faults.cluster_zombie import PROCESSES, ZombiePod, refusal
from tests.harness.faults.healing import Healing
from tests.harness.history import History
from tests.unit.harness.fake_cluster import RUNS, UIDS, Object, ended, pod
from tests.unit.harness.sleepers import soon
from tests.unit.harness.struck import announce
from tests.unit.harness.test_armed import FakeSession
from tests.unit.harness.test_supervised_pods import NAME, Supervised

FIRST, SECOND = f"{NAME}@00000000", f"{NAME}@00000001"
STEP = {"event": "step", "epoch": 3, "shard": 0, "step": "committed", "sink": "accepted"}
GIVEN_BACK = [
    ("node", "node-2", "systemctl start kubelet"),
    ("node", "node-2", f"sh -c systemctl stop {cluster_zombie.GIVE_BACK}.timer || true"),
    ("cordon", "node-2", None),
]
REFUSED = (
    "2026-11-22T05:00:00.1Z stderr F WARN: something\n"
    "2026-11-22T05:00:01.2Z stderr F StaleDriverError: another driver took over (generation 4); where: head.json\n"
    "2026-11-22T05:00:01.3Z stderr F bye\n"
)


class FakeNodes:
    """A node's shell: what was asked of it, and the processes and log that a test says there are."""

    def __init__(self, done: list[tuple[Any, ...]]) -> None:
        self.done, self.log, self.pids = done, REFUSED, ["71", "83"]
        self.outlives = False
        self.states = {"node-1": "running", "node-2": "running"}
        self.kind = SimpleNamespace(nodes=lambda: self.states)

    def start(self, node: str) -> None:
        self.done.append(("start", node))

    def execute(self, node: str, *words: str) -> str:
        script = words[-1]
        if "/cgroup" in script:
            return "\n".join(self.pids)
        if script.startswith("kill -CONT"):
            self.done.append(("continue", node, script.split()[2:4]))
            if not self.outlives:
                self.pids = []
            return ""
        if script.startswith("tail"):
            assert f"pipelines_{NAME}_{UIDS['a']}/" in script
            return self.log
        self.done.append(("node", node, " ".join(words[-3:])))
        return ""


class World(Supervised):
    """A supervised driver on node-2, with a fake cluster that can be cordoned."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.watch = Watch(folder / "events.jsonl", History(folder / "other.jsonl"))
        self.healing = Healing(self.said.append)
        self.ended = self.healing.ended
        self.done = self.cluster.done
        self.nodes = FakeNodes(self.done)
        self.cluster.cordon = lambda node, run: self.done.append(("cordon", node, run))  # type: ignore[attr-defined]
        self.cluster.node = lambda _: {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}  # type: ignore[attr-defined]
        self.renewed: list[str] = []
        self.cluster.renew = self.renewed.append  # type: ignore[attr-defined]
        self.on_node("a", "node-2")

    def on_node(self, uid: str, node: str, state: Object = RUNS) -> None:
        told = pod(NAME, UIDS[uid], DRIVER, state=state)
        told["spec"]["nodeName"] = node
        self.log.set(told)

    def announce(self, **event: Any) -> dict[str, Any]:
        return announce(self.watch, **event)

    def zombie(self) -> ZombiePod:
        self.cluster.sessions[NAME] = lambda _: FakeSession("armed 12", "stop 12")
        fault = ZombiePod(
            self.drivers,
            self.watch,
            self.cluster,  # type: ignore[arg-type]
            self.nodes,
            run="r-1",
            longest_s=0.2,
            healing=self.healing,
            say=self.said.append,
        )
        fault.arm()
        return fault

    def struck(self, *, followed: bool = True) -> ZombiePod:
        """A zombie whose driver stands still, and whose place another one took."""
        fault = self.zombie()
        fault.strike(STEP)
        if followed:
            self.followed()
        return fault

    def followed(self) -> None:
        """Have a second driver on node-1 that took over and published."""
        self.log.set(pod(NAME, UIDS["a"], DRIVER, state=ended(137)))
        self.on_node("b", "node-1")
        self.announce(event="driver", state="started", pid=SECOND)
        self.announce(event="epoch", state="published", epoch=3, driver=SECOND)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.history.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_zombie, "POLL_S", 0.01)
    monkeypatch.setattr(cluster_zombie, "REFUSED_S", 0.05)
    monkeypatch.setattr(cluster_zombie, "READY_S", 0.05)


@pytest.mark.parametrize("kind", [SIGKILL, DELETE_NOW])
def test_an_ended_driver_is_followed_by_the_one_that_took_over(world: World, kind: str) -> None:
    fault = EndedDriver(world.drivers, world.watch, kind)
    fault.arm()
    ((who, at),) = fault.strike(STEP)
    assert who == f"{NAME}@{UIDS['a']}"
    world.announce(event="driver", state="started", pid=FIRST, t=at)
    assert fault.after() == [], "it is the one that was struck"
    world.on_node("a", "node-2", ended(137))
    world.on_node("b", "node-1")
    world.announce(event="driver", state="started", pid=SECOND, t=at - 1)
    assert fault.after() == [], "it has not taken over since"
    world.announce(event="driver", state="started", pid=SECOND, t=at)
    assert fault.after() == [f"{NAME}@{UIDS['b']}"]


def test_a_zombie_is_cut_off_woken_refused_and_its_node_given_back(world: World) -> None:
    fault = world.zombie()
    ((who, _),) = fault.strike(STEP)
    world.followed()
    world.done.clear()
    fault.endure()
    assert world.done[0] == ("cordon", "node-2", "r-1")
    assert world.done[-2:] == [("node", "node-2", "systemctl stop kubelet"), ("delete pod", NAME, UIDS["a"], 0)]
    world.done.clear()
    fault.heal()
    fault.heal()
    assert world.done == [("continue", "node-2", ["71", "83"]), *GIVEN_BACK]
    told = fault.evidence()
    assert told["refusal"] == (
        "its processes ended: StaleDriverError: another driver took over (generation 4); where: head.json"
    )
    assert told["stopped_s"] is not None
    assert who.endswith(UIDS["a"])
    assert fault.after() == [f"{NAME}@{UIDS['b']}"]
    assert world.healing.owed == []


def test_the_node_starts_its_kubelet_by_itself_later_than_the_fault_can_last(world: World) -> None:
    fault = world.struck()
    asked: list[tuple[str, ...]] = []
    execute = world.nodes.execute
    world.nodes.execute = lambda node, *words: asked.append(words) or execute(node, *words)  # type: ignore[func-returns-value, method-assign]
    fault.endure()
    (timer,) = (words for words in asked if words[0] == "systemd-run")
    assert timer[-3:] == ("systemctl", "start", "kubelet")
    (seconds,) = (int(word.partition("=")[2]) for word in timer if word.startswith("--on-active="))
    assert seconds >= 0.2 + cluster_zombie.REFUSED_S
    assert asked.index(timer) < asked.index(("systemctl", "stop", "kubelet"))


def test_the_nodes_lease_is_renewed_until_its_kubelet_is_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the cluster takes broker and store out of their services after 50 s, if they are on that node."""
    monkeypatch.setattr(cluster_zombie, "RENEW_S", 0.01)
    others = set(threading.enumerate())
    fault = world.struck()
    fault.endure()
    soon("the lease to be renewed", lambda: len(world.renewed) > 2)
    fault.heal()
    soon("the end of that", lambda: set(threading.enumerate()) <= others)
    assert set(world.renewed) == {"node-2"}


def test_a_zombie_that_lives_on_has_no_refusal_and_its_node_is_given_back(world: World) -> None:
    world.nodes.outlives = True
    fault = world.struck()
    fault.endure()
    fault.heal()
    assert fault.evidence()["refusal"] is None
    assert "lives on" in world.said[-1]
    assert world.done[-1] == ("cordon", "node-2", None)


def test_a_zombie_that_nobody_follows_is_healed_all_the_same(world: World) -> None:
    fault = world.struck(followed=False)
    with pytest.raises(WaitTimedOutError, match="beside the zombie"):
        fault.endure()
    world.done.clear()
    fault.heal()
    assert [one[0] for one in world.done] == ["continue", "node", "node", "cordon"]


def test_a_stop_after_the_epoch_was_published_ends_with_the_takeover(world: World) -> None:
    """Else it would wait for a publication that may never come, where a miss is all there is to tell."""
    fault = world.zombie()
    world.announce(event="epoch", state="published", epoch=3, driver=FIRST, t=1)
    fault.strike(STEP)
    with pytest.raises(WaitTimedOutError):
        fault.endure()
    world.announce(event="driver", state="started", pid=SECOND)
    fault.endure()


def test_what_the_zombie_itself_published_ends_nothing(world: World) -> None:
    fault = world.struck(followed=False)
    world.announce(event="epoch", state="published", epoch=3, driver=FIRST)
    with pytest.raises(WaitTimedOutError):
        fault.endure()


def test_a_run_that_breaks_off_gives_the_node_back_and_says_so(world: World) -> None:
    fault = world.struck()
    fault.endure()
    world.ended.set()
    world.healing.close(torn_down=False)
    fault.heal()
    assert world.said == [
        "✓ healed at the end of the run: start the kubelet of node node-2",
        "✓ healed at the end of the run: open node node-2 for pods again",
        f"✓ healed at the end of the run: continue driver {FIRST} on node node-2",
    ]
    assert world.done.count(("cordon", "node-2", None)) == 1


def test_a_driver_that_does_not_stand_still_is_continued_and_no_zombie(world: World) -> None:
    fault = world.zombie()
    world.cluster.sessions[NAME] = lambda _: FakeSession("armed 12", "")
    fault.arm()
    with pytest.raises(NoProcessError, match="stands still"):
        fault.strike(STEP)
    assert world.done[-1] == ("continue", "node-2", ["71", "83"])
    assert world.healing.owed == []


@pytest.mark.parametrize(
    "log", ["", "2026-11-22T05:00:00.1Z stderr F MergeError: no", "2026-11-22T05:00:00.1Z stdout F replaced"]
)
def test_who_does_not_name_the_replacement_was_not_refused(log: str) -> None:
    assert refusal(log) is None


def test_a_pods_processes_are_found_by_its_control_groups_and_the_sandboxes_left_out(tmp_path: Path) -> None:
    uid = UIDS["b"]
    groups = {
        "11": (f"12:cpu:/kubepods/burstable/pod{uid}/abc", "java"),
        "12": (f"0::/kubepods/pod{uid}/abc", "pause"),
        "13": (f"0::/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/x", "python3"),
        "14": (f"0::/kubepods/pod{UIDS['a']}/abc", "java"),
    }
    for pid, (group, name) in groups.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text(group + "\n")
        (tmp_path / pid / "comm").write_text(name + "\n")
    script = PROCESSES.format(uid=uid, slice=uid.replace("-", "_")).replace("/proc", str(tmp_path))
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["11", "13"]


def test_a_node_that_a_killed_run_took_is_given_back(world: World) -> None:
    named = {"annotations": {"effectively-once/cordoned-by": "r-0"}}
    nodes = [{"metadata": {"name": "node-1"}}, {"metadata": {"name": "node-2", **named}}]
    world.cluster.nodes = lambda: nodes  # type: ignore[attr-defined]
    world.nodes.states["node-1"] = "exited"
    world.done.clear()
    heal_nodes(world.cluster, world.nodes, world.said.append)  # type: ignore[arg-type]
    assert world.done == [("start", "node-1"), *GIVEN_BACK]
    assert ["node-1" in world.said[0], "r-0" in world.said[1]] == [True, True]
