"""Makes the cuts of the cluster, and removes what an earlier run left of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tests.harness.adapters.kubelet import Kubelet
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.parties import Parties
from tests.harness.adapters.pod_network import PodNetwork, mark_of
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.cut_sorts import BETWEEN_NODES, CUT, IN_PODS, OF_NODES, Between, DrawnCut
from tests.harness.faults.cluster_cut import CutPods
from tests.harness.faults.cluster_kubelet_cut import CutKubelet
from tests.harness.faults.cluster_nodes_cut import CutNodes
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.faults.healing_arsenal import Makers
from tests.harness.faults.whole import Whole
from tests.harness.platform_sorts import API_SERVER
from tests.harness.schedule import DRIVER, EXECUTOR


def cut_makers(
    drivers: SupervisedPods,
    servers: Mapping[str, ServerPods],
    nodes: Nodes,
    *,
    run: str,
    drawn: Iterator[DrawnCut],
    numbers: Iterator[int],
    healing: Healing,
    whole: Mapping[str, Whole] | None = None,
) -> Makers:
    """Who makes the cuts of which both ends are there.

    Args:
        drivers: of the pipeline.
        servers: by role.
        nodes: on which all of them are.
        run: named in every rule.
        drawn: one cut after the other, for as many as are made.
        numbers: one for each of them, which the run has given to no other.
        healing: told what is to be undone.
        whole: when servers of several copies are whole again; none: no two nodes are cut off from each other.
    """
    parties = Parties(drivers, servers, PodNetwork(nodes))

    def cut(between: Between) -> CutPods:
        mark = mark_of(run, next(numbers))
        return CutPods(between, parties, next(drawn), mark, healing=healing)

    def of_node() -> Fault:
        mark = mark_of(run, next(numbers))
        kubelet = Kubelet(nodes, drivers.cluster)
        return CutKubelet(kubelet, parties, next(drawn), mark, healing=healing)

    roles = {DRIVER, EXECUTOR, *servers}
    there = [one for one in IN_PODS.values() if {one.first, one.second} <= roles]
    makers: Makers = {(CUT, one.target): partial(cut, one) for one in there}
    if whole:
        for one in BETWEEN_NODES.values():
            makers[CUT, one.target] = lambda: CutNodes(
                nodes, parties, whole, next(drawn), mark_of(run, next(numbers)), healing=healing
            )
    if API_SERVER in roles:
        makers |= {(CUT, one.target): of_node for one in OF_NODES.values()}
    return makers


def heal_cuts(nodes: Nodes, say: Callable[[str], None]) -> None:
    """Remove from every pod and node the rules of a run that, killed by SIGKILL, did not live to remove them."""
    network = PodNetwork(nodes)
    for node, state in nodes.kind.nodes().items():
        if state == "running":
            for run, count in sorted(network.sweep(node).items()):
                say(f"✓ healed what run {run} left: {count} rules that dropped packets on node {node}")
