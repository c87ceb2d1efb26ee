"""Cuts between pods: who is cut off from whom, which rules that takes, and that they go whatever happens."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from infra.cluster.api import UnreachableError
from infra.cluster.engine import EngineError
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.parties import API_SERVER, Parties
from tests.harness.adapters.pod_log import DRIVER, EXECUTOR, Pod
from tests.harness.adapters.pod_network import INPUT, OF_NODE, OUTPUT, Netns, PodNetwork
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.checkers import faults as checked_faults
from tests.harness.cut_sorts import CUT, IN_PODS, OF_NODES, DrawnCut, draw_cuts
from tests.harness.faults import cluster_cut
from tests.harness.faults.cluster_cut import CutPods
from tests.harness.faults.cluster_cut_arsenal import cut_makers, heal_cuts
from tests.harness.faults.healing import SPARE_S, Healing
from tests.harness.platform_sorts import BROKER, OBJECT_STORE, OPERATOR, RESULT_STORE
from tests.harness.results import BOTH, IN, OUT
from tests.harness.schedule import DECLARED, PlannedFault
from tests.unit.cluster.fake_platform import FakePlatform, server
from tests.unit.harness.witnessed import witnessed

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


@pytest.fixture
def world() -> World:
    return World()


def test_two_executors_hear_nothing_of_each_other_and_the_third_hears_both(world: World) -> None:
    """Each has rules: on another node, who opened a connection is known only to himself by the peer's own address."""
    fault = world.fault("executor-executor-cut")
    assert world.armed == ["executors pod_delete_now"]
    assert [who for who, _ in fault.strike(STEP)] == ["exec-1@e1", "exec-2@e2"]
    assert world.network.by_node == {
        "node-of-exec-1": one_of(IPS["exec-2"], INPUT, OUTPUT),
        "node-of-exec-2": one_of(IPS["exec-1"], INPUT, OUTPUT),
    }
    assert {mark for mark, _ in world.network.rules.values()} == {"mark-1"}
    assert world.network.at_most_s == {0.1 + SPARE_S}
    assert world.healing.owed == ["let packets pass again between executor and executor"]


@pytest.mark.parametrize(("direction", "first", "second"), [(IN, INPUT, OUTPUT), (OUT, OUTPUT, INPUT)], ids=str)
def test_one_way_only_what_goes_that_way_is_dropped_at_both_ends(
    world: World, direction: str, first: str, second: str
) -> None:
    fault = world.fault("executor-executor-cut", direction)
    fault.strike(STEP)
    assert world.network.by_node == {
        "node-of-exec-1": one_of(IPS["exec-2"], first),
        "node-of-exec-2": one_of(IPS["exec-1"], second),
    }
    world.network.hits = {f"node-of-exec-1 {first}": 3, f"node-of-exec-2 {second}": 4}
    fault.heal()
    assert fault.evidence()["dropped"] == {f"packets {direction}": 7}


def test_a_cut_lasts_counts_what_it_dropped_and_is_undone(world: World) -> None:
    fault = world.fault("executor-executor-cut", planned_s=0.2)
    at = fault.strike(STEP)[0][1]
    assert not fault.landed()
    world.network.hits = {"node-of-exec-1 INPUT": 3, "node-of-exec-1 OUTPUT": 8, "node-of-exec-2 OUTPUT": 1}
    fault.endure()
    fault.heal()
    fault.heal()
    assert world.network.rules == {}
    assert world.healing.owed == []
    assert fault.landed()
    told = fault.evidence()
    assert told["dropped"] == {"packets in": 4, "packets out": 8}
    assert (told["between"], told["direction"], told["planned_s"]) == (["exec-1", "exec-2"], BOTH, 0.2)
    assert 0.2 <= told["cut_s"] < 5
    assert fault.after() == ["exec-1@e1", "exec-2@e2"]
    epoch = {"event": "epoch", "epoch": 3, "driver": "driver@d1"}
    event = {
        "t": at + 5_000,
        "event": "fault",
        "kind": CUT,
        "target": "executor and executor",
        "injected_at": at,
        "healed_at": at + 4_000,
        "process_before": "exec-1@e1 + exec-2@e2",
        "process_after": "exec-1@e1 + exec-4@e4",
        "epoch": 3,
        "phase": "declared",
        "hit": True,
        **told,
    }
    published = {**epoch, "t": at + 4_500, "state": "published", "ms": {"total": 4_501}}
    after = [
        {**epoch, "epoch": 4, "t": at + 4_501, "state": "declared"},
        {**published, "epoch": 4, "t": at + 4_601, "ms": {"total": 100}},
    ]
    history = [{**epoch, "t": at - 1, "state": "declared"}, published, event, *after]
    (judged,) = checked_faults.check(witnessed(history))
    assert judged.fault.hit, judged.refuted
    history[2] = {**event, "dropped": {"packets in": 0, "packets out": 0}}
    assert not checked_faults.check(witnessed(history))[0].fault.hit


def test_a_cut_that_no_packet_met_has_not_landed(world: World) -> None:
    fault = world.fault("executor-executor-cut")
    fault.strike(STEP)
    fault.endure()
    fault.heal()
    assert fault.evidence()["dropped"] == {"packets in": 0, "packets out": 0}
    assert not fault.landed()


def test_what_a_pod_had_counted_is_known_though_it_ends_during_the_cut(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_cut, "COUNT_S", 0.05)
    fault = world.fault("executor-executor-cut", planned_s=0.2)
    fault.strike(STEP)
    world.network.hits = {"node-of-exec-1 INPUT": 3}
    fault.endure()
    world.network.gone = {"node-of-exec-1", "node-of-exec-2"}
    fault.heal()
    assert fault.evidence()["dropped"] == {"packets in": 3, "packets out": 0}


def test_after_a_declaration_the_seed_says_which_executors(world: World) -> None:
    pairs = set()
    for of in range(3):
        fault = world.fault("executor-executor-cut", of=of)
        pairs.add(tuple(who for who, _ in fault.strike(DECLARATION)))
        fault.heal()
    assert len(pairs) == 3
    assert all(first != second for first, second in pairs)


def test_who_announced_the_step_is_the_executor_that_is_cut_off(world: World) -> None:
    fault = world.fault("executor-store-cut", of=2)
    assert [who for who, _ in fault.strike({**STEP, "pod_uid": "e2"})] == ["exec-2@e2", "minio-0@u-minio-0/c-minio-0"]


RULES = {
    "driver-executor-cut": {
        "node-of-driver": one_of(IPS["exec-1"], INPUT, OUTPUT),
        "node-of-exec-1": one_of(IPS["driver"], INPUT, OUTPUT),
    },
    "executor-broker-cut": {"node-of-exec-1": ["10.244.0.20", "10.96.0.20"]},
    "executor-store-cut": {"node-of-exec-1": ["10.244.0.30", "10.96.0.30"]},
    "executor-database-cut": {"node-of-exec-1": ["10.244.0.40"]},
    "driver-broker-cut": {"node-of-driver": ["10.244.0.20", "10.96.0.20"]},
    "driver-store-cut": {"node-of-driver": ["10.244.0.30", "10.96.0.30"]},
}


@pytest.mark.parametrize("name", RULES)
def test_a_server_is_cut_off_by_its_pods_address_and_its_services_at_the_pipelines_end_alone(
    world: World, name: str
) -> None:
    fault = world.fault(name)
    fault.strike(STEP)
    wanted = {
        node: lines
        if lines[0].startswith("-I")
        else [line for chain in (INPUT, OUTPUT) for ip in lines for line in one_of(ip, chain)]
        for node, lines in RULES[name].items()
    }
    assert world.network.by_node == wanted
    fault.heal()
    assert fault.after()


@pytest.mark.parametrize(("name", "node"), [("driver-api-cut", "driver"), ("operator-api-cut", "operator")])
def test_from_the_api_server_only_its_own_port_is_cut_off(world: World, name: str, node: str) -> None:
    fault = world.fault(name)
    fault.strike(DECLARATION)
    assert world.network.by_node == {
        f"node-of-{node}": [
            "-I INPUT -s 10.96.0.1 -p tcp --sport 443",
            "-I INPUT -s 172.20.0.2 -p tcp --sport 6443",
            "-I OUTPUT -d 10.96.0.1 -p tcp --dport 443",
            "-I OUTPUT -d 172.20.0.2 -p tcp --dport 6443",
        ]
    }


@pytest.mark.parametrize("name", IN_PODS)
def test_every_sort_has_rules_evidence_and_somebody_who_works_afterwards(world: World, name: str) -> None:
    fault = world.fault(name)
    struck = [who for who, _ in fault.strike(STEP if EXECUTOR in name else DECLARATION)]
    assert len(set(struck)) == len(struck) == 2
    assert world.network.rules
    fault.heal()
    assert len(set(fault.evidence()["between"])) == 2
    assert sorted(fault.after()) == sorted(struck)


def test_every_broker_is_cut_off(world: World) -> None:
    brokers = cast("FakePlatform", world.servers[BROKER].cluster)
    brokers.there.append(pod("kafka-1", "u-kafka-1", "10.244.0.21", app="kafka"))
    fault = world.fault("executor-broker-cut", OUT)
    fault.strike(STEP)
    (lines,) = world.network.by_node.values()
    assert lines == [*one_of("10.244.0.20", OUTPUT), *one_of("10.96.0.20", OUTPUT), *one_of("10.244.0.21", OUTPUT)]
    assert fault.evidence()["between"] == ["exec-1", "kafka-0 + kafka-1"]


def test_an_executor_that_came_after_the_look_is_looked_for(world: World) -> None:
    second = world.known.pop("e2")
    fault = world.fault("executor-broker-cut")
    world.known["e2"] = second
    assert fault.strike({**STEP, "pod_uid": "e2"})[0][0] == "exec-2@e2"


def test_an_executor_that_has_ended_since_it_announced_the_step_is_a_miss(world: World) -> None:
    fault = world.fault("executor-executor-cut")
    world.end("e1")
    with pytest.raises(NoProcessError, match="does not run: executor and executor"):
        fault.strike(STEP)
    assert world.network.rules == {}


def test_one_executor_alone_has_nobody_to_be_cut_off_from(world: World) -> None:
    for uid in ("e2", "e3"):
        world.known.pop(uid)
    fault = world.fault("executor-executor-cut")
    with pytest.raises(NoProcessError, match="does not run: executor and executor"):
        fault.strike(STEP)
    assert world.network.rules == {}
    assert world.healing.owed == []


@pytest.mark.parametrize("error", [NoProcessError("gone"), EngineError("iptables: no chain")])
def test_of_a_cut_that_one_end_refuses_nothing_stays_at_the_other(world: World, error: Exception) -> None:
    fault = world.fault("executor-executor-cut")
    real = world.network.drop

    def drop(netns: Netns, *rest: Any) -> None:
        real(netns, *rest)
        if netns.node == "node-of-exec-2":
            raise error

    world.network.drop = drop  # type: ignore[method-assign, assignment]
    with pytest.raises(NoProcessError, match=str(error)):
        fault.strike(STEP)
    assert world.network.rules == {}
    assert {one.node for one in world.network.removed} == {"node-of-exec-1", "node-of-exec-2"}
    assert world.healing.owed == []


def test_an_api_that_does_not_answer_is_a_miss(world: World) -> None:
    world.reader.silent = True
    fault = world.fault("driver-store-cut")
    with pytest.raises(NoProcessError, match="nothing was cut between driver and object store: no answer"):
        fault.strike(STEP)
    assert world.network.rules == {}


def test_rules_that_cannot_be_removed_at_one_end_are_removed_at_the_other_and_stay_owed(world: World) -> None:
    fault = world.fault("executor-executor-cut")
    fault.strike(STEP)
    world.network.refuse = {"node-of-exec-1": EngineError("no answer of the node")}
    with pytest.raises(EngineError, match="no answer of the node"):
        fault.heal()
    assert [one.node for one in world.network.rules] == ["node-of-exec-1"]
    assert world.healing.owed, "the end of the run tries again"
    world.network.refuse.clear()
    world.healing.close(torn_down=False)
    assert world.network.rules == {}
    assert world.said == ["✓ healed at the end of the run: let packets pass again between executor and executor"]


def test_a_cut_is_undone_when_the_run_ends(world: World) -> None:
    fault = world.fault("driver-executor-cut", planned_s=600.0)
    fault.strike(STEP)
    world.ended.set()
    fault.endure()
    world.healing.close(torn_down=False)
    assert world.network.rules == {}


def test_a_cut_that_comes_after_the_end_of_the_run_leaves_no_rule(world: World) -> None:
    fault = world.fault("driver-executor-cut", planned_s=600.0)
    drop = world.network.drop

    def late(*given: Any) -> None:
        world.healing.close(torn_down=False)
        drop(*given)

    world.network.drop = late  # type: ignore[method-assign, assignment]
    fault.strike(STEP)
    assert world.network.rules == {}


def test_executors_that_were_lost_are_followed_before_a_cut_is_over(world: World) -> None:
    fault = world.fault("executor-executor-cut")
    fault.strike(STEP)
    fault.heal()
    world.end("e1")
    assert fault.after() == [], "the third was there before"
    world.known["e4"] = Pod("exec-4", "e4", EXECUTOR, "uc", "spark", started=True)
    assert fault.after() == ["exec-2@e2", "exec-4@e4"]


def test_a_driver_that_ended_and_has_no_successor_is_nobody(world: World) -> None:
    fault = world.fault("driver-store-cut")
    fault.strike(STEP)
    world.drivers.running = lambda: (_ for _ in ()).throw(NoProcessError("no driver"))
    assert fault.after() == []


def test_a_cluster_has_the_cuts_of_which_both_ends_are_there(world: World) -> None:
    def makers(*roles: str) -> dict[tuple[str, str], Any]:
        servers = {role: world.servers[role] for role in roles}
        return cut_makers(
            cast("SupervisedPods", world.drivers),
            servers,
            cast("Nodes", None),
            run="r-1",
            drawn=draw_cuts(1),
            numbers=itertools.count(1),
            healing=world.healing,
        )

    assert set(makers(*world.servers)) == {(CUT, one.target) for one in (IN_PODS | OF_NODES).values()}
    assert {target for _, target in makers()} == {"executor and executor", "driver and executor"}
    every = makers(*world.servers)
    marks = [make()._mark for make in (*every.values(), *every.values())]
    assert len(set(marks)) == len(marks), "who removes the rules of one cut leaves those of another"
    assert marks[0] == "effectively-once-cut-r-1-1"


def test_what_a_killed_run_left_is_removed_from_every_node_that_runs_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[str] = []

    def sweep(_: PodNetwork, node: str) -> dict[str, int]:
        swept.append(node)
        return {"r-7": 2} if node == "two" else {}

    monkeypatch.setattr(PodNetwork, "sweep", sweep)
    nodes = SimpleNamespace(kind=SimpleNamespace(nodes=lambda: {"one": "running", "two": "running", "three": "exited"}))
    said: list[str] = []
    heal_cuts(cast("Nodes", nodes), said.append)
    assert swept == ["one", "two"]
    assert said == ["✓ healed what run r-7 left: 2 rules that dropped packets on node two"]
