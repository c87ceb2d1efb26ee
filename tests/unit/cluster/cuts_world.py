"""A cluster of which the network is cut: pods, nodes and their rules, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from infra.cluster.api import UnreachableError
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.parties import API_SERVER, Parties
from tests.harness.adapters.pod_log import DRIVER, EXECUTOR, Pod
from tests.harness.adapters.pod_network import INPUT, OF_NODE, Netns, PodNetwork
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.cut_sorts import IN_PODS, DrawnCut
from tests.harness.faults.cluster_cut import CutPods
from tests.harness.faults.healing import Healing
from tests.harness.platform_sorts import BROKER, OBJECT_STORE, OPERATOR, RESULT_STORE
from tests.harness.results import BOTH
from tests.harness.schedule import DECLARED, PlannedFault
from tests.unit.cluster.fake_platform import FakePlatform, server

STEP = {"t": 1, "event": "step", "step": "ids_decided", "epoch": 3, "shard": 0, "pod": "exec-1", "pod_uid": "e1"}
DECLARATION = {"t": 1, "event": "epoch", "state": "declared", "epoch": 3, "pod": "driver", "pod_uid": "d1"}
IPS = {"driver": "10.244.0.2", "exec-1": "10.244.0.3", "exec-2": "10.244.1.4", "exec-3": "10.244.1.5"}


def pod(name: str, uid: str, ip: str, **labels: str) -> dict[str, Any]:
    told = server(name, uid, f"c-{name}", node=f"node-of-{name}")
    told["metadata"]["labels"] = labels
    told["status"]["podIP"] = ip
    return told


class FakeReader:
    """Services, and what is behind the API server's."""

    silent = False

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if self.silent:
            raise UnreachableError("no answer")
        if path.endswith("/endpointslices"):
            assert query == {"labelSelector": "kubernetes.io/service-name=kubernetes"}
            return {"items": [{"endpoints": [{"addresses": ["172.20.0.2"]}], "ports": [{"port": 6443}]}]}
        if path.endswith("/services/kubernetes"):
            return {"spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 443}]}}
        assert path.endswith("/services")
        return {
            "items": [
                {"spec": {"clusterIP": "10.96.0.20", "selector": {"app": "kafka"}}},
                {"spec": {"clusterIP": "10.96.0.30", "selector": {"app": "minio"}}},
                {"spec": {"clusterIP": "None", "selector": {"spark-role": "driver"}}},
            ]
        }


class FakeNetwork:
    """Networks as data: what was dropped where, and what comes of it."""

    def __init__(self) -> None:
        self.rules: dict[Netns, tuple[str, list[str]]] = {}
        self.at_most_s: set[float] = set()
        self.hits: dict[str, int] = {}
        self.gone: set[str] = set()
        self.refuse: dict[str, Exception] = {}
        self.removed: list[Netns] = []

    def of(self, node: str, container_id: str) -> Netns:
        if container_id in self.gone:
            raise NoProcessError(container_id)
        return Netns(node, len(container_id) * 100 + sum(map(ord, container_id)))

    def of_node(self, node: str) -> Netns:
        if node in self.gone:
            raise NoProcessError(f"node {node} has the network of this machine")
        return Netns(node, OF_NODE)

    def drop(self, netns: Netns, wanted: Sequence[str], mark: str, at_most_s: float) -> None:
        self.at_most_s.add(at_most_s)
        self.rules[netns] = (mark, list(wanted))
        if netns.node in self.refuse:
            raise self.refuse[netns.node]

    def count(self, netns: Netns, mark: str) -> dict[str, int] | None:
        if netns.node in self.gone:
            return None
        chains = {rule.split()[1] for rule in self.rules[netns][1]} if netns in self.rules else set()
        return {chain: self.hits.get(f"{netns.node} {chain}", 0) for chain in chains}

    def remove(self, netns: Netns, mark: str) -> dict[str, int] | None:
        if netns.node in self.refuse:
            raise self.refuse[netns.node]
        counted = self.count(netns, mark)
        self.removed.append(netns)
        self.rules.pop(netns, None)
        return counted

    @property
    def by_node(self) -> dict[str, list[str]]:
        """Rules without their comment, by node."""
        return {
            netns.node: [rule.partition(" -m comment")[0] for rule in wanted]
            for netns, (_, wanted) in self.rules.items()
        }


class World:
    """A pipeline of a driver and three executors on servers, all of them data."""

    def __init__(self) -> None:
        self.pipeline, self.reader = FakePlatform(), FakeReader()
        self.pipeline.namespace = "pipelines"
        self.pipeline.reader = self.reader  # type: ignore[attr-defined]
        self.known = {
            uid: Pod(name, uid, role, "uc", "spark", started=True)
            for name, uid, role in (
                ("driver", "d1", DRIVER),
                ("exec-1", "e1", EXECUTOR),
                ("exec-2", "e2", EXECUTOR),
                ("exec-3", "e3", EXECUTOR),
            )
        }
        self.pipeline.pods = self.pods  # type: ignore[method-assign]
        self.armed: list[str] = []
        self.drivers = SimpleNamespace(
            cluster=self.pipeline,
            run="r-1",
            name="uc",
            log=self,
            executors=self.executors,
            running=self.running,
            arm=lambda kind: self.armed.append(f"executors {kind}"),
            arm_driver=lambda kind: self.armed.append(f"driver {kind}"),
        )
        self.servers: dict[str, ServerPods] = {}
        for role, name, ip in (
            (BROKER, "kafka-0", "10.244.0.20"),
            (OBJECT_STORE, "minio-0", "10.244.0.30"),
            (RESULT_STORE, "postgres-0", "10.244.0.40"),
            (OPERATOR, "operator", "10.244.0.50"),
            (API_SERVER, "apiserver", "172.20.0.2"),
        ):
            platform = FakePlatform(pod(name, f"u-{name}", ip, app=name.partition("-")[0]))
            platform.reader = self.reader  # type: ignore[attr-defined]
            self.servers[role] = ServerPods.of(cast("Any", platform), role)
        self.network = FakeNetwork()
        self.said: list[str] = []
        self.healing = Healing(self.said.append)
        self.ended = self.healing.ended

    def pods(self, selector: Any = "") -> Any:
        """Of the cluster by selector, of the log by role."""
        if selector in (DRIVER, EXECUTOR):
            return [one for one in self.known.values() if one.role == selector]
        assert "r-1,sparkoperator.k8s.io/app-name=uc,spark-role=" in selector
        role = selector.rpartition("=")[2]
        return [
            pod(one.name, one.uid, IPS[one.name], **{"spark-role": role})
            for one in self.known.values()
            if one.role == role
        ]

    def pod(self, uid: str) -> Pod | None:
        return self.known.get(uid)

    def executors(self) -> list[str]:
        return [one.who for one in self.known.values() if one.role == EXECUTOR and one.runs]

    def running(self) -> Pod:
        return next(one for one in self.known.values() if one.role == DRIVER and one.runs)

    def end(self, uid: str) -> None:
        old = self.known[uid]
        self.known[uid] = Pod(old.name, old.uid, old.role, "uc", "spark", started=True, exit_code=137)

    def fault(self, name: str, direction: str = BOTH, planned_s: float = 0.1, of: int = 0) -> CutPods:
        parties = Parties(cast("SupervisedPods", self.drivers), self.servers, cast("PodNetwork", self.network))
        drawn, between = DrawnCut(direction, of), IN_PODS[name]
        made = CutPods(between, parties, drawn, "mark-1", healing=self.healing)
        made.prepare(PlannedFault(1, DECLARED, None, 0, between.strike, planned_s=planned_s))
        made.arm()
        return made


def one_of(ip: str, *chains: str) -> list[str]:
    return [f"-I {chain} {'-s' if chain == INPUT else '-d'} {ip}" for chain in chains]
