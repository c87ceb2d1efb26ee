"""A kubelet that stands still: its node's containers run on, and the cluster hears nothing of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from infra.cluster.engine import EngineError
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import Drivers, NoProcessError, Struck
from tests.harness.adapters.kubelet import Kubelet
from tests.harness.adapters.nodes import Nodes
from tests.harness.faults.fault import as_miss, now_ms
from tests.harness.faults.healing import SPARE_S, Debt
from tests.harness.faults.stall import Stall
from tests.harness.platform_sorts import KUBELET
from tests.harness.schedule import PlannedFault

GROUP = "kubelet"
"""Its control group names it: a number that was given out again is left alone."""


class StalledKubelet(Stall):
    """The kubelet of the worker node with most of our pods is stopped on its node, which continues it by itself later.

    Args:
        drivers: whose pipeline it is.
        nodes: of the cluster.
        cluster: tells when the node is well again.
        owed: see Stall.
    """

    def __init__(self, drivers: Drivers, nodes: Nodes, cluster: Cluster, **owed: Any) -> None:
        super().__init__(drivers, KUBELET, **owed)
        self._nodes, self._kubelet = nodes, Kubelet(nodes, cluster)

    def heal(self) -> None:
        """Continue it, and see that its node is well again. Raises ClusterTimeoutError, EngineError."""
        self._healing.pay(self._debt)
        self._kubelet.wait_well(self._healing.ended)
        super().heal()

    def evidence(self) -> dict[str, Any]:
        return {**super().evidence(), "node": self._kubelet.node}

    def prepare(self, planned: PlannedFault) -> None:
        """Find it before the epoch begins: that takes as long as a small epoch."""
        super().prepare(planned)
        # What cannot be found now is looked for again when it is to be stopped.
        with suppress(NoProcessError, ClusterError, EngineError):
            self._kubelet.find()

    def _stop(self, event: Mapping[str, Any]) -> Struck:
        with as_miss("no kubelet was stopped", NoProcessError, ClusterError, EngineError):
            if not self._kubelet.pid:
                self._kubelet.find()
        node, processes = self._kubelet.node, {self._kubelet.pid: GROUP}

        def stop() -> int:
            with as_miss("no kubelet was stopped", NoProcessError, ClusterError, EngineError):
                self._nodes.stop(node, processes, self._seconds + SPARE_S)
            return now_ms()

        self._debt = Debt(f"continue the kubelet of node {node}", lambda: self._nodes.resume(node, processes))
        return self._kubelet.who, self._healing.strike(self._debt, stop)

    def _gone(self) -> bool:
        return False

    def _present(self) -> list[str]:
        return self._kubelet.present()
