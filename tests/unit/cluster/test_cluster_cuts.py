"""Cuts between pods: who is cut off from whom, which rules that takes, and that they go whatever happens."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from infra.cluster.engine import EngineError
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.pod_log import EXECUTOR, Pod
from tests.harness.adapters.pod_network import INPUT, OUTPUT, Netns, PodNetwork
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.checkers import faults as checked_faults
from tests.harness.cut_sorts import CUT, IN_PODS, OF_NODES, draw_cuts
from tests.harness.faults import cluster_cut
from tests.harness.faults.cluster_cut_arsenal import cut_makers, heal_cuts
from tests.harness.faults.healing import SPARE_S
from tests.harness.platform_sorts import BROKER
from tests.harness.results import BOTH, IN, OUT
from tests.unit.cluster.cuts_world import DECLARATION, IPS, STEP, World, one_of, pod
from tests.unit.cluster.fake_platform import FakePlatform
from tests.unit.harness.witnessed import witnessed


@pytest.fixture
def world() -> World:
    return World()


def test_two_executors_hear_nothing_of_each_other_and_the_third_hears_both(world: World) -> None:
    """Each has rules: on another node, who opened a connection is known only to himself by the peer's own address."""
    fault = world.fault("executor-executor-cut")
    assert world.armed == ["executors pod_delete_now"]
    assert [who for who, _ in fault.strike(STEP)] == ["exec-1@e1", "exec-2@e2"]
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


def of_server(*ips: str) -> list[str]:
    return [line for chain in (INPUT, OUTPUT) for ip in ips for line in one_of(ip, chain)]


# Of the API server its own port alone.
OF_API = [
    "-I INPUT -s 10.96.0.1 -p tcp --sport 443",
    "-I INPUT -s 172.20.0.2 -p tcp --sport 6443",
    "-I OUTPUT -d 10.96.0.1 -p tcp --dport 443",
    "-I OUTPUT -d 172.20.0.2 -p tcp --dport 6443",
]
RULES = {
    "executor-executor-cut": {"exec-1": of_server(IPS["exec-2"]), "exec-2": of_server(IPS["exec-1"])},
    "driver-executor-cut": {"driver": of_server(IPS["exec-1"]), "exec-1": of_server(IPS["driver"])},
    "executor-broker-cut": {"exec-1": of_server("10.244.0.20", "10.96.0.20")},
    "executor-store-cut": {"exec-1": of_server("10.244.0.30", "10.96.0.30")},
    "executor-database-cut": {"exec-1": of_server("10.244.0.40")},
    "driver-broker-cut": {"driver": of_server("10.244.0.20", "10.96.0.20")},
    "driver-store-cut": {"driver": of_server("10.244.0.30", "10.96.0.30")},
    "driver-api-cut": {"driver": OF_API},
    "operator-api-cut": {"operator": OF_API},
}
"""Of a server its pods' addresses and its services', at the pipeline's end alone."""


@pytest.mark.parametrize("name", IN_PODS)
def test_every_sort_has_its_rules_evidence_and_somebody_who_works_afterwards(world: World, name: str) -> None:
    fault = world.fault(name)
    struck = [who for who, _ in fault.strike(STEP if EXECUTOR in name else DECLARATION)]
    assert len(set(struck)) == len(struck) == 2
    assert world.network.by_node == {f"node-of-{where}": lines for where, lines in RULES[name].items()}
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


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("executor-executor-cut", lambda it: [it.known.pop(uid) for uid in ("e2", "e3")], "does not run: executor and"),
        (
            "driver-store-cut",
            lambda it: setattr(it.reader, "silent", True),
            "nothing was cut between driver and object store: no answer",
        ),
    ],
    ids=["one executor alone", "the API does not answer"],
)
def test_who_cannot_be_cut_off_is_missed(world: World, name: str, change: Callable[[World], object], why: str) -> None:
    change(world)
    fault = world.fault(name)
    with pytest.raises(NoProcessError, match=why):
        fault.strike(STEP)
    assert (world.network.rules, world.healing.owed) == ({}, [])


def test_an_executor_that_has_ended_since_it_announced_the_step_is_a_miss(world: World) -> None:
    fault = world.fault("executor-executor-cut")
    world.end("e1")
    with pytest.raises(NoProcessError, match="does not run: executor and executor"):
        fault.strike(STEP)
    assert world.network.rules == {}


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
