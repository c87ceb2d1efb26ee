"""A cut between a kubelet and the API server: which node, which rules, when it has hit, and how it ends."""

from __future__ import annotations

from typing import cast

import pytest

from infra.cluster.engine import EngineError
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.kubelet import Kubelet
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.parties import Parties
from tests.harness.adapters.pod_network import INPUT, OF_NODE, OUTPUT, Netns, PodNetwork
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.checkers import cuts
from tests.harness.cut_sorts import OF_NODES, DrawnCut
from tests.harness.faults.cluster_kubelet_cut import CutKubelet
from tests.harness.faults.healing import SPARE_S
from tests.harness.results import BOTH, IN, OUT, Fault
from tests.harness.schedule import DECLARED, PlannedFault
from tests.unit.cluster.cuts_world import World
from tests.unit.cluster.fake_platform import FakePlatform, node, server
from tests.unit.cluster.test_cluster_stalls import Machines

BETWEEN = OF_NODES["kubelet-api-cut"]
KUBELET, API = "kubelet-812@two", "apiserver@u-apiserver/c-apiserver"
PORTS = {
    INPUT: ["-I INPUT -s 10.96.0.1 -p tcp --sport 443", "-I INPUT -s 172.20.0.2 -p tcp --sport 6443"],
    OUTPUT: ["-I OUTPUT -d 10.96.0.1 -p tcp --dport 443", "-I OUTPUT -d 172.20.0.2 -p tcp --dport 6443"],
}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def platform() -> FakePlatform:
    there = FakePlatform(server(node="two"), server("minio-0", "u2", "c2", node="two"))
    there.nodes_there = [node("one"), node("two")]
    return there


def fault(world: World, platform: FakePlatform, machines: Machines, direction: str = BOTH) -> CutKubelet:
    parties = Parties(cast("SupervisedPods", world.drivers), world.servers, cast("PodNetwork", world.network))
    kubelet = Kubelet(cast("Nodes", machines), cast("Cluster", platform))
    made = CutKubelet(kubelet, parties, DrawnCut(direction), "mark-1", healing=world.healing)
    made.prepare(PlannedFault(1, DECLARED, None, 0, BETWEEN.strike, planned_s=0.1))
    made.arm()
    return made


@pytest.mark.parametrize(("direction", "chains"), [(BOTH, (INPUT, OUTPUT)), (IN, (INPUT,)), (OUT, (OUTPUT,))], ids=str)
def test_the_node_with_most_pods_asks_the_api_server_in_vain(
    world: World, platform: FakePlatform, direction: str, chains: tuple[str, ...]
) -> None:
    one = fault(world, platform, Machines(platform), direction)
    assert [who for who, _ in one.strike({})] == [KUBELET, API]
    assert world.network.by_node == {"two": [rule for chain in chains for rule in PORTS[chain]]}
    assert set(world.network.rules) == {Netns("two", OF_NODE)}
    assert world.network.at_most_s == {0.1 + SPARE_S}
    assert world.healing.owed == ["let packets pass again between kubelet and API server"]
    world.network.hits = {f"two {chain}": 3 for chain in chains}
    one.endure()
    one.heal()
    one.heal()
    assert (world.network.rules, world.healing.owed) == ({}, [])
    assert one.landed()
    assert one.after() == [KUBELET, API]
    told = one.evidence()
    assert told["between"] == ["kubelet of two", "apiserver"]
    ways = {BOTH: (IN, OUT), IN: (IN,), OUT: (OUT,)}[direction]
    assert told["dropped"] == {f"packets {way}": 3 for way in ways}
    struck = Fault(kind=BETWEEN.strike.kind, target=BETWEEN.target, injected_at=1_000, healed_at=2_000, **told)
    assert cuts.complaint(struck) is None


def test_a_cut_that_dropped_nothing_has_not_landed(world: World, platform: FakePlatform) -> None:
    one = fault(world, platform, Machines(platform))
    one.strike({})
    one.heal()
    assert not one.landed()


def test_a_node_that_is_not_well_again_is_waited_for_without_rules(world: World, platform: FakePlatform) -> None:
    one = fault(world, platform, Machines(platform))
    one.strike({})
    platform.nodes_there = [node("one"), node("two", ready=False)]
    with platform.gives_up("node two and its pods to be well again"):
        one.heal()
    assert (world.network.rules, world.healing.owed) == ({}, [])


def test_whose_kubelet_cannot_be_found_before_the_epoch_is_looked_for_then(
    world: World, platform: FakePlatform
) -> None:
    machines = Machines(platform)
    machines.pid = "0"
    one = fault(world, platform, machines)
    with pytest.raises(NoProcessError, match="no kubelet runs on node two"):
        one.strike({})
    machines.pid = "812"
    assert one.strike({})[0][0] == KUBELET


def test_a_node_whose_network_is_not_its_own_or_that_refuses_a_rule_is_a_miss(
    world: World, platform: FakePlatform
) -> None:
    world.network.gone = {"two"}
    with pytest.raises(NoProcessError, match="the network of this machine"):
        fault(world, platform, Machines(platform)).strike({})
    world.network.gone.clear()
    one = fault(world, platform, Machines(platform))
    world.network.refuse = {"two": EngineError("iptables: no chain")}
    remove = world.network.remove
    world.network.remove = lambda netns, mark: world.network.refuse.clear() or remove(netns, mark)  # type: ignore[method-assign, func-returns-value]
    with pytest.raises(NoProcessError, match="the network of node two was not cut: iptables: no chain"):
        one.strike({})
    assert (world.network.rules, world.healing.owed) == ({}, [])


def test_an_api_server_whose_address_no_rule_can_name_is_a_miss(world: World, platform: FakePlatform) -> None:
    def refuses(_: str) -> Netns:
        raise ValueError("fd00::2 is no IPv4 address")

    world.network.of_node = refuses  # type: ignore[method-assign, assignment]
    with pytest.raises(NoProcessError, match="no kubelet was cut off: fd00::2"):
        fault(world, platform, Machines(platform)).strike({})


def test_who_takes_the_kubelets_place_is_named(world: World, platform: FakePlatform) -> None:
    machines = Machines(platform)
    one = fault(world, platform, machines)
    one.strike({})
    one.heal()
    machines.pid = "900"
    assert one.after() == ["kubelet-900@two", API]
    machines.pid = "0"
    assert one.after() == []
