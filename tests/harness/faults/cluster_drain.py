"""A node that is drained: its pods are evicted as their budgets allow, and it takes pods again afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kubernetes.client.exceptions import ApiException

from infra.cluster.api import ClusterError
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.nodes import ENDED, Nodes
from tests.harness.adapters.pod_log import DRIVER
from tests.harness.adapters.rendering import Object
from tests.harness.adapters.server_pods import ServerPod, server_pod
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.adapters.tenancy import OURS
from tests.harness.faults.fault import Fault, as_miss, now_ms
from tests.harness.faults.healing import Debt, Healing
from tests.harness.faults.whole import Whole

DRAINED_S = 300.0
"""A broker that ends in order hands over what it leads; one pod of a kind goes at a time."""
STAYS = ("DaemonSet", "Node")
"""Owners whose pods a drain leaves: they belong to the node."""


class DrainedNode(Fault):
    """A node takes no more pods, and those on it are evicted; then it takes pods again, and all comes back.

    Args:
        nodes: of the cluster.
        drivers: told when their driver is evicted.
        servers: by role; each is whole before and after.
        run: named on the node meanwhile.
        healing: opens the node again whatever happens.
    """

    lasting = wants_records = flowing = True

    def __init__(
        self, nodes: Nodes, drivers: SupervisedPods, servers: Mapping[str, Whole], run: str, *, healing: Healing
    ) -> None:
        self._nodes, self._cluster, self._drivers = nodes, drivers.cluster, drivers
        self._servers, self._run, self._healing = servers, run, healing
        self._node = ""
        self._pods: list[ServerPod] = []
        self._there: set[str] = set()
        self._debt: Debt

    def arm(self) -> None:
        """Wait until every server is whole. Raises ClusterTimeoutError."""
        for one in self._servers.values():
            one.wait(self._healing.ended)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        for one in self._servers.values():
            if (why := one.lacks()) is not None:
                raise NoProcessError(f"no node was drained: {why}")
        with as_miss("no node was drained", ClusterError, ApiException):
            on = {node: _on(self._cluster, node, OURS) for node in self._nodes.workers()}
            self._node = choose(on)
            self._pods = [server_pod(one) for one in on[self._node]]
            self._there = {*self._present(), *(pod.who for pod in self._pods)}
            for pod in self._drivers.log.pods(DRIVER):
                if pod.node == self._node and pod.runs:
                    self._drivers.excuse(pod)
            self._debt = Debt(f"have node {self._node} take pods again", lambda: self._cluster.cordon(self._node, None))
            self._healing.strike(self._debt, lambda: self._cluster.cordon(self._node, self._run))
        at = now_ms()
        return [(pod.who, at) for pod in self._pods]

    def endure(self) -> None:
        """Evict until nothing is left on it that a drain takes. Raises ClusterTimeoutError, ApiException."""
        self._cluster.wait_for(
            f"the pods of node {self._node} to be evicted",
            lambda: self._healing.ended.is_set() or self._is_empty(),
            DRAINED_S,
            lambda: [one["metadata"]["name"] for one in self._left()],
        )

    def heal(self) -> None:
        """Open the node, and see that every server is whole again. Raises ClusterTimeoutError. Safe to repeat."""
        self._healing.pay(self._debt)
        for one in self._servers.values():
            one.wait(self._healing.ended)

    def after(self) -> list[str]:
        """Pods of servers, and executors, that were not there before."""
        with suppress(ClusterError, OSError):
            return sorted(self._present() - self._there)
        return []

    def landed(self) -> bool:
        with suppress(ClusterError, OSError):
            now = {one["metadata"]["uid"] for one in _on(self._cluster, self._node, OURS)}
            return not now & {pod.uid for pod in self._pods}
        return False

    def evidence(self) -> dict[str, Any]:
        return {"node": self._node, "pods": [pod.name for pod in self._pods]}

    def _present(self) -> set[str]:
        servers = {pod.who for one in self._servers.values() for pod in one.server.ready()}
        return servers | {*self._drivers.executors()}

    def _is_empty(self) -> bool:
        with suppress(ClusterError, OSError):
            left = self._left()
            # Asked again and again: a budget that holds one back lets it go when the one before is back.
            for one in left:
                if not one["metadata"].get("deletionTimestamp"):
                    self._cluster.evict(one)
            return not left
        return False

    def _left(self) -> list[Object]:
        return [one for one in _on(self._cluster, self._node) if not stays(one)]


def _on(cluster: Cluster, node: str, selector: str = "") -> list[Object]:
    """Pods of all namespaces that are on a node and have not come to their end. Raises ApiError, UnreachableError."""
    asked = {"fieldSelector": f"spec.nodeName={node}", **({"labelSelector": selector} if selector else {})}
    items = cluster.reader.get("/api/v1/pods", **asked)["items"]
    return [one for one in items if (one.get("status") or {}).get("phase") not in ENDED]


def stays(pod: Mapping[str, Any]) -> bool:
    """Whether a drain leaves a pod where it is: it belongs to the node."""
    return any(one["kind"] in STAYS for one in pod["metadata"].get("ownerReferences") or ())


def choose(on: Mapping[str, list[Object]]) -> str:
    """The node to drain: most of ours is on it, and no server twice.

    Of two drives of one node the second waits until the first is back, and that one waits for its node: its volume is
    there. Such a drain ends only when the node is opened again.

    Args:
        on: pods of ours, by node.

    Raises:
        NoProcessError: there is none.
    """
    able = [node for node, pods in on.items() if pods and _most_alike(pods) < 2]
    if not able:
        raise NoProcessError("no worker node has pods of ours, and each of them once")
    return max(sorted(able), key=lambda node: len(on[node]))


def _most_alike(pods: list[Object]) -> int:
    """How many pods of one StatefulSet there are at most."""
    owners = (
        (one["metadata"]["namespace"], owner["name"])
        for one in pods
        for owner in one["metadata"].get("ownerReferences") or ()
        if owner["kind"] == "StatefulSet"
    )
    return max(Counter(owners).values(), default=0)
