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
from tests.harness.adapters.pod_network import Netns
from tests.harness.cut_sorts import OF_NODES, DrawnCut
from tests.harness.faults.cluster_cut import CutNetworks
from tests.harness.faults.fault import SEPARATOR, as_miss
from tests.harness.faults.healing import Healing
from tests.harness.platform_sorts import API_SERVER
from tests.harness.schedule import PlannedFault


class CutKubelet(CutNetworks):
    """What a worker node asks the API server itself is dropped: its kubelet's words, and those of whatever is no pod.

    Beyond 40 s the cluster takes the node for lost, and what serves on it out of its services.

    Args:
        kubelet: whose node it is.
        parties: finds the API server.
        drawn: which way.
        mark: comment of the rules, of no other cut.
        healing: removes them whatever happens.
    """

    def __init__(self, kubelet: Kubelet, parties: Parties, drawn: DrawnCut, mark: str, *, healing: Healing) -> None:
        super().__init__(OF_NODES["kubelet-api-cut"], parties, drawn, mark, healing=healing)
        self._kubelet = kubelet
        self._servers: list[Party] = []
        self._netns: Netns | None = None

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
        with as_miss("no kubelet was cut off", ClusterError, EngineError, OSError, ValueError):
            if self._netns is None:
                self._look()
        return [self._kubelet.who, *(one.who for one in self._servers)]

    def _sever(self) -> None:
        self._wall(f"node {self._kubelet.node}", self._netns, self._servers, is_first=True)

    def _ends(self) -> list[str]:
        return [f"kubelet of {self._kubelet.node}", SEPARATOR.join(one.name for one in self._servers)]
