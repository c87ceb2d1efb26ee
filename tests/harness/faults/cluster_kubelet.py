"""A kubelet that stands still: its node's containers run on, and the cluster hears nothing of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from infra.cluster.engine import EngineError
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import Drivers, NoProcessError, Struck
from tests.harness.adapters.kubelet import Kubelet
from tests.harness.adapters.nodes import Nodes
from tests.harness.faults.cluster_stop import SPARE_S
from tests.harness.faults.fault import now_ms
from tests.harness.faults.healing import Debt
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
        self._debt: Debt
        self._began: float | None = None
        self._lasted_s: float | None = None

    def heal(self) -> None:
        """Continue it, and see that its node is well again. Raises ClusterTimeoutError, EngineError."""
        self._resume()
        self._kubelet.wait_well(self._ended)
        super().heal()

    def evidence(self) -> dict[str, Any]:
        return {**super().evidence(), "node": self._kubelet.node}

    @property
    def _stopped_s(self) -> float | None:
        return self._lasted_s

    def prepare(self, planned: PlannedFault) -> None:
        """Find it before the epoch begins: that takes as long as a small epoch."""
        super().prepare(planned)
        # What cannot be found now is looked for again when it is to be stopped.
        with suppress(NoProcessError, ClusterError, EngineError):
            self._kubelet.find()

    def _stop(self, event: Mapping[str, Any]) -> Struck:
        try:
            if not self._kubelet.pid:
                self._kubelet.find()
            self._debt = self._healing.owe(Debt(f"continue the kubelet of node {self._kubelet.node}", self._continue))
            self._nodes.stop(self._kubelet.node, {self._kubelet.pid: GROUP}, self._planned_s + SPARE_S)
        except (NoProcessError, ClusterError, EngineError) as error:
            if self._kubelet.pid:
                self._healing.pay(self._debt)
            raise NoProcessError(f"no kubelet was stopped: {error}") from error
        self._began, at = time.monotonic(), now_ms()
        self._healing.confirm(self._debt)
        return self._kubelet.who, at

    def _resume(self) -> None:
        self._healing.pay(self._debt)

    def _continue(self) -> None:
        # Taken before the signal: a process that was stopped a little longer is no worse, a shorter stop is.
        if self._began is not None and self._lasted_s is None:
            self._lasted_s = round(time.monotonic() - self._began, 3)
        self._nodes.resume(self._kubelet.node, {self._kubelet.pid: GROUP})

    def _gone(self) -> bool:
        return False

    def _present(self) -> list[str]:
        return self._kubelet.present()
