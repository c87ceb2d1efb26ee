"""A cut between two worker nodes: which rules, in whose network, what they count, and when it is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from infra.cluster.engine import EngineError
from infra.cluster.network import Node
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.parties import Parties
from tests.harness.adapters.pod_network import OF_NODE, Address, Netns, PodNetwork, packets
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.aftermath import effects_of
from tests.harness.checkers import cuts
from tests.harness.cut_sorts import BETWEEN_NODES, DrawnCut
from tests.harness.faults.cluster_nodes_cut import CutNodes
from tests.harness.faults.whole import Whole
from tests.harness.results import IN, Effect, Fault
from tests.harness.schedule import DECLARED, PlannedFault
from tests.unit.cluster.cuts_world import World
from tests.unit.cluster.fake_platform import FakePlatform, node, server

SORT = BETWEEN_NODES["nodes-cut"]


class Behind:
    """Whether the server is whole."""

    why: str | None = None


@pytest.fixture
def world() -> World:
    made = World()
    made.pipeline.nodes_there = [node("one"), node("two"), node("three")]
    return made


def cut(world: World, behind: Behind, on: dict[str, int] | None = None) -> CutNodes:
    there = on or {"one": 2, "two": 3, "three": 1}
    nodes = SimpleNamespace(
        workers=lambda: sorted(there),
        pods_on=lambda name, _: [None] * there[name],
        started_at=lambda name: f"at-{name}",
        known=lambda: {name: Node(f"172.20.0.{at}", f"10.244.{at}.0/24") for at, name in enumerate(there, 2)},
    )
    platform = FakePlatform(server())
    whole = Whole(ServerPods(cast("Cluster", platform), "broker", "", "java"), lambda: behind.why)
    parties = Parties(cast("SupervisedPods", world.drivers), world.servers, cast("PodNetwork", world.network))
    made = CutNodes(cast("Nodes", nodes), parties, {"broker": whole}, DrawnCut(IN), "mark-1", healing=world.healing)
    made.prepare(PlannedFault(1, DECLARED, None, 0, SORT.strike, planned_s=0.1))
    made.arm()
    return made


def test_two_nodes_and_their_pods_hear_nothing_of_each_other_until_servers_are_whole_again(world: World) -> None:
    behind = Behind()
    fault = cut(world, behind)
    assert [who for who, _ in fault.strike({})] == ["two@at-two", "one@at-one"]
    assert world.network.by_node == {
        "two": [
            "-I INPUT -s 172.20.0.2",
            "-I INPUT -s 10.244.2.0/24",
            "-I OUTPUT -d 172.20.0.2",
            "-I OUTPUT -d 10.244.2.0/24",
            "-I FORWARD -s 172.20.0.2",
            "-I FORWARD -d 172.20.0.2",
            "-I FORWARD -s 10.244.2.0/24",
            "-I FORWARD -d 10.244.2.0/24",
        ]
    }
    world.network.hits = {"two FORWARD": 41, "two INPUT": 1}
    fault.endure()
    behind.why = "2 partitions have a copy that is not in sync"
    with FakePlatform.gives_up(world.pipeline, "complete"):
        fault.heal()
    assert not world.network.rules, "whatever lacks copies, packets pass again"
    behind.why = None
    fault.heal()
    assert (fault.after(), fault.landed()) == (["two@at-two", "one@at-one"], True)
    told = fault.evidence()
    assert (told["between"], told["direction"]) == (["node two", "node one"], "both")
    assert told["dropped"] == {"packets forwarded": 41, "packets in": 1, "packets out": 0}
    struck = Fault(kind=SORT.strike.kind, target=SORT.target, injected_at=1_000, healed_at=2_000, **told)
    assert cuts.complaint(struck) is None
    assert effects_of(SORT.strike.kind, SORT.target) == (Effect.MET,)
    nothing = struck.model_copy(update={"dropped": dict.fromkeys(told["dropped"], 0)})
    assert cuts.complaint(nothing) == "no packet and no byte is known that it held back"


def test_a_run_that_ends_lets_packets_pass(world: World) -> None:
    fault = cut(world, Behind())
    fault.strike({})
    world.healing.close(torn_down=False)
    assert not world.network.rules
    assert world.network.removed == [Netns("two", OF_NODE)]


def test_without_two_workers_or_a_network_of_its_own_nothing_is_cut(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoProcessError, match="no two worker nodes"):
        cut(world, Behind(), {"one": 2}).strike({})

    def refuse(*_: object) -> None:
        raise EngineError("refused")

    with monkeypatch.context() as patched, pytest.raises(NoProcessError, match="node two was not cut off"):
        patched.setattr(world.network, "drop", refuse)
        cut(world, Behind()).strike({})
    world.network.gone.add("two")
    with pytest.raises(NoProcessError, match="the network of this machine"):
        cut(world, Behind()).strike({})


def test_a_range_is_matched_and_what_is_no_address_refused() -> None:
    assert Address("10.244.2.0/24").words("-d") == "-d 10.244.2.0/24"
    with pytest.raises(ValueError, match="netmask"):
        Address("10.244.2.0/24 -j ACCEPT")
    assert packets("FORWARD 1 7 420 DROP\nFORWARD 2 1 60 DROP\n") == {"FORWARD": 8}
