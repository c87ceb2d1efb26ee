"""A server whose copies are replaced one by one, as its StatefulSet or Deployment does at an upgrade."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kubernetes.client.exceptions import ApiException

from infra.cluster.api import ClusterError
from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.server_pods import WORKLOADS, ServerPod
from tests.harness.faults.cluster_server import LEFT_S
from tests.harness.faults.fault import Fault, as_miss, now_ms
from tests.harness.faults.healing import Debt, Healing
from tests.harness.faults.whole import WHOLE_S, Whole


class RolledServer(Fault):
    """Every copy of a server is ended in order and made anew, the next one when the one before is ready.

    Args:
        whole: the server, and when it is whole again.
        healing: told that it has to be.
    """

    lasting = wants_records = flowing = True

    def __init__(self, whole: Whole, *, healing: Healing) -> None:
        self._whole, self._server, self._healing = whole, whole.server, healing
        self._kind, self._name = WORKLOADS[whole.server.what]
        self._debt = Debt(f"see every copy of the {whole.server.what} replaced and ready", self._see, server=True)
        self._before: list[ServerPod] = []
        self._after: list[str] = []

    def arm(self) -> None:
        """Wait until it is whole. Raises ClusterTimeoutError."""
        self._whole.wait(self._healing.ended)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        with as_miss(f"the {self._server.what} was not restarted", ClusterError, ApiException):
            self._before = self._server.ready()
            self._healing.owe(self._debt)
            self._server.cluster.restart(self._kind, self._name)
        at = now_ms()
        return [(pod.who, at) for pod in self._before]

    def endure(self) -> None:
        """Until every copy is another one, and ready. Raises ClusterTimeoutError."""
        self._server.cluster.wait_for(
            f"every copy of the {self._server.what} to be replaced",
            lambda: self._healing.ended.is_set() or self._rolled(),
            WHOLE_S,
            self._server.describe,
        )

    def heal(self) -> None:
        """See that it is whole: what one copy missed meanwhile it has again. Raises ClusterTimeoutError."""
        self._whole.wait(self._healing.ended)
        self._healing.pay(self._debt)

    def after(self) -> list[str]:
        return self._after

    def evidence(self) -> dict[str, Any]:
        return {"node": " ".join(sorted({pod.node for pod in self._before}))}

    def _rolled(self) -> bool:
        with suppress(ClusterError, OSError):
            former = {pod.who for pod in self._before}
            there = [pod.who for pod in self._server.ready()]
            if self._server.cluster.rolled(self._kind, self._name) and not former & {*there}:
                self._after = there
        return bool(self._after)

    def _see(self) -> None:
        if not self._after:
            self._server.cluster.wait_for(self._debt.what, self._rolled, LEFT_S, self._server.describe)
