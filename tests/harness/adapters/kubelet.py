"""The kubelet of a worker node: which one has most of our pods, its process, and whether its node is well."""

from __future__ import annotations

import threading
from contextlib import suppress

from infra.cluster.api import ClusterError
from infra.cluster.engine import EngineError
from tests.harness.adapters.cluster import Cluster, ready
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.server_pods import READY_S
from tests.harness.adapters.tenancy import OURS

MAIN = ("systemctl", "show", "--property=MainPID", "--value", "kubelet")


class Kubelet:
    """That of the worker node with most of our pods, once it was found.

    Args:
        nodes: of the cluster.
        cluster: tells of the node.

    Attributes:
        node: its name; empty before.
        pid: its number there; 0 before.
    """

    def __init__(self, nodes: Nodes, cluster: Cluster) -> None:
        self._nodes, self._cluster = nodes, cluster
        self.node, self.pid = "", 0
        self._served: set[str] = set()

    def find(self) -> None:
        """Look for it. Raises NoProcessError, ApiError, UnreachableError, EngineError."""
        on = {node: self._nodes.pods_on(node, OURS) for node in self._nodes.workers()}
        if not on:
            raise NoProcessError("no worker node has a kubelet to strike")
        self.node = max(on, key=lambda node: len(on[node]))
        self._served = {pod.who for pod in on[self.node] if pod.ready}
        self.pid = self._main()

    @property
    def who(self) -> str:
        """As history names it."""
        return f"kubelet-{self.pid}@{self.node}"

    def present(self) -> list[str]:
        """Who is there now, as history names it; nobody as long as that is not known."""
        with suppress(NoProcessError, EngineError):
            return [f"kubelet-{self._main()}@{self.node}"]
        return []

    def wait_well(self, ended: threading.Event) -> None:
        """Wait until its node is well; ends early when the run does. Raises ClusterTimeoutError."""
        what = f"node {self.node} and its pods to be well again"
        self._cluster.wait_for(what, lambda: ended.is_set() or self._well(), READY_S, lambda: self.node)

    def _well(self) -> bool:
        """Whether its node is ready, and so is everything on it that was before and is still there."""
        with suppress(ClusterError, OSError):
            there = [pod for pod in self._nodes.pods_on(self.node, OURS) if pod.who in self._served]
            return ready(self._cluster.node(self.node)) and all(pod.ready for pod in there)
        return False

    def _main(self) -> int:
        told = self._nodes.execute(self.node, *MAIN).strip()
        if not told.isdecimal() or told == "0":
            raise NoProcessError(f"no kubelet runs on node {self.node}: {told or 'no answer'}")
        return int(told)
