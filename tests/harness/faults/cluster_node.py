"""A node that fails and comes back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from infra.cluster.engine import EngineError
from tests.harness.adapters.cluster import Cluster, ready
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.pod_log import DRIVER
from tests.harness.adapters.server_pods import READY_S, ServerPod
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.adapters.tenancy import OURS
from tests.harness.faults.fault import Lasting, as_miss, now_ms
from tests.harness.faults.healing import Debt, Healing

DOWN_S = 5.0
"""A node that is back within 50 s is not even missed, but all its containers have ended."""


class RestartedNode(Lasting):
    """A worker node fails with everything on it, and comes back some seconds later on its own disk.

    Args:
        nodes: of the cluster.
        cluster: tells when it is well again.
        drivers: told when their driver was on it.
        seconds: it stays down for so long, its start not counted.
        healing: starts it whatever happens.
    """

    def __init__(
        self, nodes: Nodes, cluster: Cluster, drivers: SupervisedPods, seconds: float, *, healing: Healing
    ) -> None:
        super().__init__(healing, seconds)
        self._nodes, self._cluster, self._drivers = nodes, cluster, drivers
        self._node = self._former = ""
        self._pods: list[ServerPod] = []
        self._after = ""

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        with as_miss("no node was struck", ClusterError):
            # Of several, the one with most of ours on it: its failure is the greatest.
            on = {node: self._nodes.pods_on(node, OURS) for node in self._nodes.workers()}
        self._node = max(on, key=lambda node: len(on[node]), default="")
        self._pods = on.get(self._node, [])
        if not self._pods:
            raise NoProcessError("no worker node has a pod of ours")
        self._former = self._nodes.started_at(self._node)
        for pod in self._drivers.log.pods(DRIVER):
            if pod.node == self._node and pod.runs:
                self._drivers.excuse(pod)
        self._debt = Debt(f"start node {self._node}", lambda: self._nodes.start(self._node))
        self._healing.strike(self._debt, lambda: self._nodes.crash(self._node))
        return [(f"{self._node}@{self._former}", now_ms())]

    def heal(self) -> None:
        """Start it, and see that it and its pods are well. Raises ClusterTimeoutError, EngineError. Safe to repeat."""
        super().heal()
        self._cluster.wait_for(
            f"node {self._node} to be well again",
            lambda: self._healing.ended.is_set() or self._well(),
            READY_S,
            self._describe,
        )

    def after(self) -> list[str]:
        return [self._after] if self._after else []

    def evidence(self) -> dict[str, Any]:
        return {"node": self._node, "pods": [pod.name for pod in self._pods]}

    def _well(self) -> bool:
        """Whether kubelet tells of itself since the start, and no pod is as it was: it has ended, or serves anew.

        For some seconds the API tells what it heard before.
        """
        with suppress(ClusterError, OSError, EngineError):
            started = self._nodes.started_at(self._node)
            renewed = started != self._former and self._nodes.renewed_at(self._node) > started
            if renewed and ready(self._cluster.node(self._node)) and not self._unwell():
                self._after = f"{self._node}@{started}"
        return bool(self._after)

    def _unwell(self) -> list[str]:
        former = {pod.uid: pod.who for pod in self._pods}
        there = [pod for pod in self._nodes.pods_on(self._node, OURS) if pod.uid in former]
        return [pod.who for pod in there if pod.who == former[pod.uid] or not pod.ready]

    def _describe(self) -> object:
        try:
            return self._unwell()
        except (ClusterError, OSError) as error:
            return str(error)
