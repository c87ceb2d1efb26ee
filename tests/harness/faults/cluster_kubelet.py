"""A kubelet that stands still: its node's containers run on, and the cluster hears nothing of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from infra.cluster.engine import EngineError
from tests.harness.adapters.cluster import Cluster, ready
from tests.harness.adapters.drivers import Drivers, NoProcessError, Struck
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.server_pods import READY_S
from tests.harness.faults.cluster_node import OURS
from tests.harness.faults.cluster_stop import SPARE_S
from tests.harness.faults.fault import now_ms
from tests.harness.faults.healing import Debt
from tests.harness.faults.stall import Stall
from tests.harness.schedule import PlannedFault
from tests.harness.stall_sorts import KUBELET

MAIN = ("systemctl", "show", "--property=MainPID", "--value", "kubelet")
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
        self._nodes, self._cluster = nodes, cluster
        self._node, self._pid = "", 0
        self._served: set[str] = set()
        self._debt: Debt
        self._began: float | None = None
        self._lasted_s: float | None = None

    def heal(self) -> None:
        """Continue it, and see that its node is well again. Raises ClusterTimeoutError, EngineError."""
        self._resume()
        what = f"node {self._node} and its pods to be well again"
        self._cluster.wait_for(what, lambda: self._ended.is_set() or self._well(), READY_S, lambda: self._node)
        super().heal()

    def evidence(self) -> dict[str, Any]:
        return {**super().evidence(), "node": self._node}

    @property
    def _stopped_s(self) -> float | None:
        return self._lasted_s

    def prepare(self, planned: PlannedFault) -> None:
        """Find it before the epoch begins: that takes as long as a small epoch."""
        super().prepare(planned)
        # What cannot be found now is looked for again when it is to be stopped.
        with suppress(NoProcessError, ClusterError, EngineError):
            self._find()

    def _find(self) -> None:
        on = {node: self._nodes.pods_on(node, OURS) for node in self._nodes.workers()}
        if not on:
            raise NoProcessError("no worker node has a kubelet to stop")
        self._node = max(on, key=lambda node: len(on[node]))
        self._served = {pod.who for pod in on[self._node] if pod.ready}
        self._pid = self._main()

    def _stop(self, event: Mapping[str, Any]) -> Struck:
        try:
            if not self._pid:
                self._find()
            self._debt = self._healing.owe(Debt(f"continue the kubelet of node {self._node}", self._continue))
            self._nodes.stop(self._node, {self._pid: GROUP}, self._planned_s + SPARE_S)
        except (NoProcessError, ClusterError, EngineError) as error:
            if self._pid:
                self._healing.pay(self._debt)
            raise NoProcessError(f"no kubelet was stopped: {error}") from error
        self._began = time.monotonic()
        return self._named(self._pid), now_ms()

    def _resume(self) -> None:
        self._healing.pay(self._debt)

    def _continue(self) -> None:
        # Taken before the signal: a process that was stopped a little longer is no worse, a shorter stop is.
        if self._began is not None and self._lasted_s is None:
            self._lasted_s = round(time.monotonic() - self._began, 3)
        self._nodes.resume(self._node, {self._pid: GROUP})

    def _gone(self) -> bool:
        return False

    def _present(self) -> list[str]:
        with suppress(NoProcessError, EngineError):
            return [self._named(self._main())]
        return []

    def _main(self) -> int:
        told = self._nodes.execute(self._node, *MAIN).strip()
        if not told.isdecimal() or told == "0":
            raise NoProcessError(f"no kubelet runs on node {self._node}: {told or 'no answer'}")
        return int(told)

    def _named(self, pid: int) -> str:
        return f"kubelet-{pid}@{self._node}"

    def _well(self) -> bool:
        """Whether the node is ready, and so is everything on it that was before and is still there."""
        with suppress(ClusterError, OSError):
            there = [pod for pod in self._nodes.pods_on(self._node, OURS) if pod.who in self._served]
            return ready(self._cluster.node(self._node)) and all(pod.ready for pod in there)
        return False
