"""A cut between a kubelet and the API server: its node's containers run on, and the cluster hears nothing of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from infra.cluster.engine import EngineError
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.kubelet import Kubelet
from tests.harness.adapters.parties import Parties, Party
from tests.harness.adapters.pod_network import Netns, rules
from tests.harness.cut_sorts import OF_NODES, DrawnCut
from tests.harness.faults.cluster_cut import WAYS
from tests.harness.faults.cut import Cut
from tests.harness.faults.fault import SEPARATOR
from tests.harness.faults.healing import SPARE_S, Healing
from tests.harness.platform_sorts import API_SERVER
from tests.harness.results import IN, OUT
from tests.harness.schedule import PlannedFault


class CutKubelet(Cut):
    """What a worker node asks the API server itself is dropped: its kubelet's words, and those of whatever is no pod.

    Beyond 40 s the cluster takes the node for lost, and what serves on it out of its services.

    Args:
        kubelet: whose node it is.
        parties: finds the API server.
        drawn: which way.
        mark: comment of the rules, of no other cut.
        healing: removes them whatever happens.
    """

    def __init__(
        self,
        kubelet: Kubelet,
        parties: Parties,
        drawn: DrawnCut,
        mark: str,
        *,
        healing: Healing,
    ) -> None:
        super().__init__(OF_NODES["kubelet-api-cut"], drawn, healing=healing)
        self._kubelet, self._parties, self._mark = kubelet, parties, mark
        self._servers: list[Party] = []
        self._netns: Netns | None = None
        self._counted: dict[str, int] = {}

    def prepare(self, planned: PlannedFault) -> None:
        """Find both before the epoch begins."""
        super().prepare(planned)
        # What cannot be found now is looked for again when it is struck.
        with suppress(NoProcessError, ClusterError, EngineError, OSError, ValueError):
            self._look()

    def heal(self) -> None:
        """Remove the rules, and see that the node is well again. Raises ClusterTimeoutError, EngineError."""
        super().heal()
        self._kubelet.wait_well(self._healing.ended)

    def after(self) -> list[str]:
        """Both, which were there all the time, or who is there in their places."""
        with suppress(ClusterError, OSError):
            servers, kubelets = self._parties.servers[API_SERVER].ready(), self._kubelet.present()
            return [*kubelets, *(one.who for one in servers)] if servers and kubelets else []
        return []

    def _look(self) -> None:
        self._kubelet.find()
        self._servers = self._parties.of(API_SERVER)
        self._netns = self._parties.network.of_node(self._kubelet.node)

    def _victims(self, event: Mapping[str, Any]) -> list[str]:
        try:
            if self._netns is None:
                self._look()
        except (ClusterError, EngineError, OSError, ValueError) as error:
            raise NoProcessError(f"no kubelet was cut off: {error}") from error
        return [self._kubelet.who, *(one.who for one in self._servers)]

    def _sever(self) -> None:
        assert self._netns is not None
        peer = tuple(dict.fromkeys(address for one in self._servers for address in one.addresses))
        wanted = rules(peer, WAYS[True][self._drawn.direction], self._mark)
        try:
            self._parties.network.drop(self._netns, wanted, self._mark, self._seconds + SPARE_S)
        except EngineError as error:
            raise NoProcessError(f"the network of node {self._kubelet.node} was not cut: {error}") from error

    def _mend(self) -> None:
        assert self._netns is not None
        # Once the rules are removed there is nothing more to count: what was counted then stays.
        self._counted |= self._parties.network.remove(self._netns, self._mark) or {}

    def _ends(self) -> list[str]:
        return [f"kubelet of {self._kubelet.node}", SEPARATOR.join(one.name for one in self._servers)]

    def _count(self) -> dict[str, int]:
        ways = {chain: way for way in (IN, OUT) for chain in WAYS[True][way]}
        return {f"packets {ways[chain]}": number for chain, number in sorted(self._counted.items())}
