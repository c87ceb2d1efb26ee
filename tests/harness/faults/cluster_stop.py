"""Servers of the platform that stand still in their pods for a while."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.held_pod import ALONE, HeldPod, server_held
from tests.harness.adapters.server_pods import Pick, ServerPod, ServerPods
from tests.harness.faults.cluster_server import PickedServer
from tests.harness.faults.fault import Lasting
from tests.harness.faults.healing import SPARE_S, Healing
from tests.harness.faults.stopped_pod import StoppedPod


class StoppedServerPod(Lasting):
    """A server stands still in its container for some seconds: its connections stay open, and nobody answers.

    Args:
        server: whose pod.
        seconds: for so long.
        healing: continues it whatever happens.
        pick: chooses one of several pods; left out the announced shard decides.

    Attributes:
        picked: whom it strikes.
    """

    def __init__(self, server: ServerPods, seconds: float, *, healing: Healing, pick: Pick | None = None) -> None:
        super().__init__(healing, seconds)
        self._server, self.picked = server, PickedServer(server, pick, healing.ended)
        self._stopped = StoppedPod(server.what, self._enter, healing)

    def arm(self) -> None:
        """Wait until it serves, and open a session in every pod. Raises ClusterTimeoutError."""
        self.picked.wait_ready()
        self._stopped.arm(self._server.ready())

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        at = self._stopped.stop(lambda: self.picked.choose(event))
        self._debt = self._stopped.debt
        return [(self._stopped.pod.who, at)]

    def heal(self) -> None:
        """Continue it, and see that it serves. Safe to repeat."""
        super().heal()
        self.picked.wait_ready()

    def after(self) -> list[str]:
        """The same container; another one when Kubernetes gave it up meanwhile."""
        return self.picked.present()

    def evidence(self) -> dict[str, Any]:
        return {"stopped_s": self._debt.lasted_s, **self.picked.why}

    def _enter(self, pod: ServerPod) -> HeldPod:
        held = server_held(self._server.what, self._server.program, ALONE)
        return HeldPod(self._server.cluster, pod, held, self._seconds + SPARE_S)
