"""The control plane: API server and DNS, stopped on their nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from infra.cluster.engine import EngineError
from tests.harness.adapters.cluster import ready
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.server_pods import READY_S, ServerPod, ServerPods
from tests.harness.faults.fault import Lasting, as_miss, now_ms
from tests.harness.faults.healing import SPARE_S, Debt, Healing

API_OUTAGE_S, DNS_OUTAGE_S = 60.0, 60.0
"""kubelet gives up an API server that does not answer after some two minutes, a CoreDNS after 50 s or more."""


class StoppedControl(Lasting):
    """A part of the control plane stands still, on all its nodes: connections stay open, and nobody answers.

    It is stopped and continued through the engine, which needs no API server.

    Args:
        part: its pods.
        nodes: reaches their nodes.
        seconds: for so long.
        healing: continues it whatever happens.
    """

    def __init__(self, part: ServerPods, nodes: Nodes, seconds: float, *, healing: Healing) -> None:
        super().__init__(healing, seconds)
        self._part, self._nodes = part, nodes
        self._found: dict[str, dict[int, str]] = {}
        self._before: list[ServerPod] = []
        self._debt = Debt(f"continue {part.what}", self._continue)

    def arm(self) -> None:
        """Find its processes. Raises ClusterTimeoutError."""
        self._part.cluster.wait_for(f"{self._part.what} to be ready", self._serves, READY_S, self._part.describe)
        self._before = self._part.ready()
        found: dict[str, dict[int, str]] = defaultdict(dict)
        for pod in self._before:
            # One that restarts just now has no process: the strike will miss it, and is tried again.
            with suppress(NoProcessError):
                found[pod.node][self._nodes.process(pod.node, pod.container_id)] = pod.container_id
        self._found = dict(found)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        if sum(map(len, self._found.values())) < len(self._before) or not self._before:
            raise NoProcessError(f"not every process of {self._part.what} was found")
        self._healing.strike(self._debt, self._stop)
        at = now_ms()
        return [(pod.who, at) for pod in self._before]

    def heal(self) -> None:
        """Continue it, and see that it serves and every node is well. Raises ClusterTimeoutError. Safe to repeat."""
        super().heal()
        what = f"{self._part.what} and the nodes to be well again"
        self._part.cluster.wait_for(
            what, lambda: self._healing.ended.is_set() or self._serves(), READY_S, self._part.describe
        )

    def after(self) -> list[str]:
        """The same containers; others where kubelet gave one up meanwhile."""
        with suppress(ClusterError, OSError):
            return [one.who for one in self._part.ready()]
        return []

    def evidence(self) -> dict[str, Any]:
        return {"stopped_s": self._debt.lasted_s, "node": " ".join(sorted(self._found))}

    def _serves(self) -> bool:
        with suppress(ClusterError, OSError):
            nodes = self._part.cluster.nodes()
            return len(self._part.ready()) >= self._part.count and all(ready(one) for one in nodes)
        return False

    def _stop(self) -> None:
        for node, containers in self._found.items():
            with as_miss(f"{self._part.what} was not stopped", EngineError):
                self._nodes.stop(node, containers, self._seconds + SPARE_S)

    def _continue(self) -> None:
        for node, containers in self._found.items():
            self._nodes.resume(node, containers)
