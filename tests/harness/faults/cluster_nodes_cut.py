"""A cut between two worker nodes: their pods hear nothing of each other, and each still hears the third node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from infra.cluster.engine import EngineError
from infra.cluster.network import Node
from tests.harness.adapters.cluster import ready
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.parties import Parties
from tests.harness.adapters.pod_network import FORWARD, INPUT, OUTPUT, Address, rules
from tests.harness.adapters.tenancy import OURS
from tests.harness.cut_sorts import BETWEEN_NODES, DrawnCut
from tests.harness.faults.cluster_cut import CutNetworks
from tests.harness.faults.fault import as_miss
from tests.harness.faults.healing import SPARE_S, Healing
from tests.harness.faults.whole import Whole
from tests.harness.results import BOTH, IN, OUT
from tests.harness.schedule import PlannedFault

COUNTED = {INPUT: f"packets {IN}", OUTPUT: f"packets {OUT}", FORWARD: "packets forwarded"}


class CutNodes(CutNetworks):
    """What two nodes and their pods send each other is dropped, both ways, by rules in the network of one of them.

    Args:
        nodes: of the cluster.
        parties: with the network in which packets are dropped.
        servers: by role; each is whole before and after.
        drawn: which cut it is; its direction is both ways.
        mark: comment of the rules, of no other cut.
        healing: removes them whatever happens.
    """

    def __init__(
        self,
        nodes: Nodes,
        parties: Parties,
        servers: Mapping[str, Whole],
        drawn: DrawnCut,
        mark: str,
        *,
        healing: Healing,
    ) -> None:
        super().__init__(BETWEEN_NODES["nodes-cut"], parties, DrawnCut(BOTH, drawn.of), mark, healing=healing)
        self._nodes, self._servers = nodes, servers
        self._pair: list[str] = []
        self._known: dict[str, Node] = {}
        self._started: dict[str, str] = {}

    def prepare(self, planned: PlannedFault) -> None:
        """Find both before the epoch begins."""
        super().prepare(planned)
        with suppress(NoProcessError, ClusterError, EngineError, OSError, ValueError):
            self._look()

    def arm(self) -> None:
        """Wait until every server is whole. Raises ClusterTimeoutError."""
        for one in self._servers.values():
            one.wait(self._healing.ended)

    def heal(self) -> None:
        """Remove the rules, and see that both nodes and every server are well. Raises ClusterTimeoutError."""
        super().heal()
        cluster = self._parties.drivers.cluster
        cluster.wait_for(
            f"nodes {' and '.join(self._pair)} to be ready",
            lambda: self._healing.ended.is_set() or len(self.after()) == len(self._pair),
            SPARE_S * 4,
            self.after,
        )
        for one in self._servers.values():
            one.wait(self._healing.ended)

    def after(self) -> list[str]:
        """Both, as far as they are ready."""
        with suppress(ClusterError, EngineError, OSError):
            cluster = self._parties.drivers.cluster
            return [f"{one}@{self._nodes.started_at(one)}" for one in self._pair if ready(cluster.node(one))]
        return []

    def _look(self) -> None:
        on = {node: len(self._nodes.pods_on(node, OURS)) for node in self._nodes.workers()}
        if len(on) < 2:
            raise NoProcessError(f"no two worker nodes, but {sorted(on) or 'none'}")
        pair = sorted(on, key=lambda node: (-on[node], node))[:2]
        self._known, self._started = self._nodes.known(), {one: self._nodes.started_at(one) for one in pair}
        self._pair = pair

    def _victims(self, event: Mapping[str, Any]) -> list[str]:
        with as_miss("no node was cut off", ClusterError, EngineError, OSError, ValueError):
            if not self._pair:
                self._look()
        return [f"{one}@{self._started[one]}" for one in self._pair]

    def _sever(self) -> None:
        ours, theirs = self._pair
        peer = self._known[theirs]
        addresses = [Address(one) for one in (peer.address, peer.pods) if one]
        with as_miss(f"node {ours} was not cut off", EngineError):
            netns = self._parties.network.of_node(ours)
            self._walls[netns] = True
            wanted = rules(addresses, (INPUT, OUTPUT, FORWARD), self._mark)
            self._parties.network.drop(netns, wanted, self._mark, self._seconds + SPARE_S)

    def _ends(self) -> list[str]:
        return [f"node {one}" for one in self._pair]

    def _count(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for counted in self._counted.values():
            for chain, number in counted.items():
                found[COUNTED[chain]] += number
        return dict(sorted(found.items()))
