"""Copies of servers that are replaced one by one, lose their disks or their node: struck, healed, and told."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import orjson
import pytest
from kubernetes.client.exceptions import ApiException

from infra.cluster.api import UnreachableError
from tests.harness.adapters.cluster import Cluster, is_rolled
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.leaders import Leaders
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.services import Copies, Services
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.cluster_disk_lost import LostDisk
from tests.harness.faults.cluster_drain import DrainedNode, choose, stays
from tests.harness.faults.cluster_rollout import RolledServer
from tests.harness.faults.healing import Healing
from tests.harness.faults.whole import HEALED, Whole, whole_servers
from tests.harness.history import History
from tests.harness.platform_sorts import BROKER, OBJECT_STORE
from tests.unit.cluster.fake_platform import FakePlatform, Object, server


class Copied(FakePlatform):
    """Three brokers, with claims, a StatefulSet and nodes."""

    def __init__(self) -> None:
        super().__init__(*(server(f"kafka-{n}", f"u{n}", f"c{n}", node=f"n{n}") for n in range(3)))
        self.claims = {f"data-kafka-{n}": f"pvc-{n}" for n in range(3)}
        self.refuse_once = {"kafka-1"}
        self.is_rolled = True
        self.reader = SimpleNamespace(get=lambda _, **asked: {"items": self.on(asked["fieldSelector"])})

    def on(self, selector: str) -> list[Object]:
        return [one for one in self.there if one["spec"]["nodeName"] == selector.removeprefix("spec.nodeName=")]

    def restart(self, kind: str, name: str) -> None:
        self.done.append(("restart", kind, name))

    def rolled(self, kind: str, name: str) -> bool:
        return self.is_rolled

    def cordon(self, name: str, run: str | None) -> None:
        self.done.append(("cordon", name, run))

    def claim(self, name: str) -> Object | None:
        volume = self.claims.get(name)
        return {"metadata": {"uid": f"of {volume}"}, "spec": {"volumeName": volume}} if volume is not None else None

    def delete_claim(self, name: str, uid: str) -> None:
        self.done.append(("delete claim", name, uid))

    def evict(self, pod: Object) -> bool:
        name = pod["metadata"]["name"]
        self.done.append(("evict", name))
        if name in self.refuse_once:
            self.refuse_once.discard(name)
            return False
        self.there = [one for one in self.there if one is not pod]
        return True

    def come_back(self, number: int, uid: str) -> None:
        name = f"kafka-{number}"
        left = [one for one in self.there if one["metadata"]["name"] != name]
        self.there = [*left, server(name, uid, f"d{number}", node=f"n{number}")]


class World:
    """A server of three copies, and what is behind of them."""

    def __init__(self) -> None:
        self.platform = Copied()
        self.behind: str | None = None
        self.said: list[str] = []
        self.healing = Healing(self.said.append)
        pods = ServerPods(cast("Cluster", self.platform), BROKER, "", "java", 3)
        self.whole = Whole(pods, lambda: self.behind)


@pytest.fixture
def world() -> World:
    return World()


def test_every_copy_is_replaced_and_the_server_whole_again_before_it_is_healed(world: World) -> None:
    fault = RolledServer(world.whole, healing=world.healing)
    fault.arm()
    struck = fault.strike({})
    assert [who for who, _ in struck] == ["kafka-0@u0/c0", "kafka-1@u1/c1", "kafka-2@u2/c2"]
    assert (world.platform.done, len(world.healing.owed)) == ([("restart", "StatefulSet", "kafka")], 1)
    world.platform.come_back(0, "v0")
    with world.platform.gives_up("every copy of the broker to be replaced"):
        fault.endure()
    for number in (1, 2):
        world.platform.come_back(number, f"v{number}")
    world.platform.is_rolled = False
    with world.platform.gives_up("every copy of the broker to be replaced"):
        fault.endure()
    world.platform.is_rolled = True
    fault.endure()
    world.behind = "2 partitions have a copy that is not in sync"
    with world.platform.gives_up("complete.*not in sync"):
        fault.heal()
    world.behind = None
    fault.heal()
    assert (sorted(fault.after()), world.healing.owed) == (["kafka-0@v0/d0", "kafka-1@v1/d1", "kafka-2@v2/d2"], [])


def test_a_restart_that_the_api_refuses_is_missed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ApiException(status=403)

    monkeypatch.setattr(world.platform, "restart", refuse)
    fault = RolledServer(world.whole, healing=world.healing)
    with pytest.raises(NoProcessError, match="the broker was not restarted"):
        fault.strike({})


def test_a_lost_disk_is_another_volume_that_has_its_contents_again(world: World) -> None:
    fault = LostDisk(world.whole, healing=world.healing)
    fault.arm()
    ((who, _),) = fault.strike({"shard": 1})
    assert who == "kafka-1@u1/c1"
    assert world.platform.done == [("delete claim", "data-kafka-1", "of pvc-1"), ("delete", "kafka-1", "u1", 1)]
    world.platform.come_back(1, "v1")
    with world.platform.gives_up("ready with another disk"):
        fault.endure()
    assert not fault.landed(), "it came back with the disk that was to be lost"
    world.platform.claims["data-kafka-1"] = "pvc-9"
    fault.endure()
    world.behind = "the drive of kafka-1 is healing"
    with world.platform.gives_up("complete.*healing"):
        fault.heal()
    assert world.healing.owed == ["see every copy of the broker complete again"]
    world.behind = None
    fault.heal()
    assert (fault.after(), fault.landed(), world.healing.owed) == (["kafka-1@v1/d1"], True, [])
    assert fault.evidence() == {"volumes": {"before": "pvc-1", "after": "pvc-9"}, "node": "n1"}


def test_no_second_disk_is_taken_while_one_is_behind(world: World) -> None:
    world.behind = "the drive of kafka-2 is healing"
    fault = LostDisk(world.whole, healing=world.healing)
    with world.platform.gives_up("complete"):
        fault.arm()
    with pytest.raises(NoProcessError, match="no disk was taken: the drive of kafka-2 is healing"):
        fault.strike({"shard": 1})
    assert (world.platform.done, world.healing.owed) == ([], [])


def draining(world: World) -> DrainedNode:
    drivers = SimpleNamespace(cluster=world.platform, log=SimpleNamespace(pods=lambda _: []), executors=list)
    nodes = SimpleNamespace(workers=lambda: ["n0", "n1"])
    for pod in world.platform.there:
        pod["metadata"] |= {"namespace": "platform", "ownerReferences": [{"kind": "StatefulSet", "name": "kafka"}]}
    agent = server("kube-proxy", "u7", "c7", node="n1")
    agent["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "kube-proxy"}]
    world.platform.there.append(agent)
    servers = {BROKER: world.whole}
    of = (cast("Nodes", nodes), cast("SupervisedPods", drivers), servers, "r-7")
    return DrainedNode(*of, healing=world.healing)


def test_a_drain_asks_until_budgets_let_go_and_opens_the_node_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.harness.faults.cluster_drain.choose", lambda _: "n1")
    world.whole.server.cluster.pods = lambda _: [  # type: ignore[method-assign,assignment]
        one for one in world.platform.there if one["metadata"]["name"] != "kube-proxy"
    ]
    fault = draining(world)
    fault.arm()
    struck = [who for who, _ in fault.strike({})]
    assert "kafka-1@u1/c1" in struck
    assert world.healing.owed == ["have node n1 take pods again"]
    assert not fault.landed()
    fault.endure()
    assert world.platform.done == [("cordon", "n1", "r-7"), ("evict", "kafka-1"), ("evict", "kafka-1")]
    with world.platform.gives_up("every copy of the broker"):
        fault.heal()
    assert world.platform.done[-1] == ("cordon", "n1", None), "whatever is not back, the node takes pods"
    world.platform.come_back(1, "v1")
    fault.heal()
    assert (fault.after(), world.healing.owed, fault.evidence()["node"]) == (["kafka-1@v1/d1"], [], "n1")


def test_a_drain_that_is_interrupted_opens_the_node(world: World) -> None:
    fault = draining(world)
    fault.strike({})
    world.healing.close(torn_down=False)
    assert world.platform.done[-1] == ("cordon", "n1", None)
    fault.endure()
    assert not [one for one in world.platform.done if one[0] == "evict"]


def owned(name: str, owner: str, kind: str = "StatefulSet") -> Object:
    return {"metadata": {"name": name, "namespace": "p", "ownerReferences": [{"kind": kind, "name": owner}]}}


def test_a_node_with_two_drives_is_not_drained() -> None:
    """The second waits for the first, and that one for its node."""
    two = [owned("minio-0", "minio"), owned("minio-3", "minio"), owned("kafka-0", "kafka")]
    one = [owned("minio-1", "minio"), owned("kafka-1", "kafka")]
    assert choose({"n0": two, "n1": one, "n2": []}) == "n1"
    with pytest.raises(NoProcessError, match="each of them once"):
        choose({"n0": two, "n2": []})
    assert stays(owned("kube-proxy", "kube-proxy", "DaemonSet"))
    assert not stays(one[0])


NEW = {"observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3}
REVISED = {"observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "currentRevision": "a"}


@pytest.mark.parametrize(
    ("told", "rolled"),
    [
        (NEW, True),
        (NEW | {"observedGeneration": 1}, False),
        (NEW | {"updatedReplicas": 2}, False),
        (NEW | {"readyReplicas": 2}, False),
        (NEW | {"replicas": 4}, False),
        (REVISED | {"updateRevision": "a"}, True),
        (REVISED | {"updateRevision": "b"}, False),
        (None, False),
    ],
)
def test_a_set_is_rolled_when_all_are_new_and_ready(told: Object | None, rolled: bool) -> None:
    assert is_rolled({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": told}) is rolled


@pytest.mark.parametrize(
    ("formatted", "note", "says"),
    [
        (False, None, "not formatted"),
        (True, b"", "healing"),
        (True, b"\xadRetryAttempts\x00\xa8Finished\xc2", "healing"),
        (True, b"\xadRetryAttempts\x00\xa8Finished\xc3", "whole"),
        (True, None, "whole"),
    ],
)
def test_a_drive_is_whole_when_it_is_formatted_and_no_note_says_that_it_still_heals(
    tmp_path: Path, formatted: bool, note: bytes | None, says: str
) -> None:
    from subprocess import check_output  # noqa: PLC0415

    (tmp_path / ".minio.sys" / "buckets").mkdir(parents=True)
    if formatted:
        (tmp_path / ".minio.sys" / "format.json").touch()
    if note is not None:
        (tmp_path / ".minio.sys" / "buckets" / ".healing.bin").write_bytes(note)
    assert check_output(["sh", "-c", HEALED.replace("/data", str(tmp_path))], text=True).strip() == says


def test_whole_is_what_every_copy_says(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = ServerPods(cast("Cluster", world.platform), OBJECT_STORE, "", "minio", 3)
    leaders = cast("Leaders", SimpleNamespace(behind=lambda: ["a/0", "b/1"]))
    whole = whole_servers({BROKER: world.whole.server, OBJECT_STORE: stores}, leaders)
    assert whole[BROKER].lacks() == "2 partitions have a copy that is not in sync: a/0, b/1"
    says = {"kafka-0": "whole", "kafka-1": "whole", "kafka-2": "healing"}
    monkeypatch.setattr("tests.harness.faults.whole.ask_shell", lambda _, pod, __: says[pod.name])
    assert whole[OBJECT_STORE].lacks() == "the drive of kafka-2 is healing"
    says["kafka-2"] = "whole"
    assert whole[OBJECT_STORE].lacks() is None
    world.platform.there.pop()
    assert whole[OBJECT_STORE].lacks() == "2 of 3 copies of the object store are ready"


class Probed:
    """A service that answers when a test says so."""

    def __init__(self) -> None:
        self.fails, self.forgotten = 0, threading.Event()
        self.asked = threading.Semaphore(0)

    def __call__(self) -> float:
        self.asked.release()
        if self.fails:
            self.fails -= 1
            raise ConnectionError("no leader")
        return 0.0

    def forget(self) -> None:
        self.forgotten.set()


def test_a_reading_says_who_was_ready_before_it_and_whether_it_was_answered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.harness.adapters.services.AGAIN_S", 0.0)
    probe = Probed()
    services = Services({})
    copies = Copies(world.whole.server, probe)
    world.platform.there.pop()
    probe.fails = 2
    told = services.read(BROKER, copies)
    assert (told["answered"], told["copies"], told["ready"]) == (True, 3, ["kafka-0@u0/c0", "kafka-1@u1/c1"])
    monkeypatch.setattr("tests.harness.adapters.services.ANSWER_S", 0.0)
    probe.fails = 1
    told = services.read(BROKER, copies)
    assert (told["answered"], told["says"]) == (False, "ConnectionError: no leader")
    assert "answered" not in services.read(BROKER, Copies(world.whole.server))


def test_readings_are_in_history_and_end_with_the_run(world: World, tmp_path: Path) -> None:
    probe = Probed()
    services = Services({BROKER: Copies(world.whole.server, probe)}, every_s=0.01)
    with History(tmp_path / "history.jsonl") as history:
        services.start(history)
        for _ in range(3):
            assert probe.asked.acquire(timeout=10)
        services.stop()
    rows = [orjson.loads(line) for line in history.path.read_bytes().splitlines()]
    assert [{name: row[name] for name in row if name != "link"} for row in rows] == services.seen
    assert rows[0]["event"] == "service"
    assert probe.forgotten.is_set()


def test_an_api_that_is_silent_is_no_reading(world: World) -> None:
    world.platform.silent = True
    with pytest.raises(UnreachableError, match="no answer"):
        Services({}).read(BROKER, Copies(world.whole.server))
