"""Servers of the platform that stand still in their pods for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.held import HeldStop
from tests.harness.adapters.server_pods import Pick, ServerPod, ServerPods
from tests.harness.faults.cluster_server import wait_ready
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Debt, Healing

SPARE_S = 30.0
"""What stands still goes on by itself so long after it was to be continued: a harness that is killed heals nothing."""


class StoppedServerPod(Fault):
    """A server stands still in its container for some seconds: its connections stay open, and nobody answers.

    Args:
        server: whose pod.
        seconds: for so long.
        healing: continues it whatever happens.
        ended: ends the wait early.
        pick: chooses one of several pods; left out the announced shard decides.
    """

    lasting = True

    def __init__(
        self, server: ServerPods, seconds: float, *, healing: Healing, ended: threading.Event, pick: Pick | None = None
    ) -> None:
        self._server, self._seconds, self._healing, self._ended = server, seconds, healing, ended
        self._pick: Pick = pick or server.picked
        self._told: Mapping[str, Any] = {}
        self._held: dict[str, HeldStop] = {}
        self._struck: HeldStop
        self._debt: Debt
        self._began = 0.0
        self._stopped_s: float | None = None

    def arm(self) -> None:
        """Wait until it serves, and open a session in every pod. Raises ClusterTimeoutError."""
        wait_ready(self._server, self._ended)
        self._disarm()
        for pod in self._server.ready():
            with suppress(NoProcessError):
                self._held[pod.who] = self._hold(pod)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        try:
            picked = self._pick(event)
            pod, self._told = picked.pod, picked.told
            held = self._struck = self._held.pop(pod.who) if pod.who in self._held else self._hold(pod)
        except ClusterError as error:
            raise NoProcessError(f"the {self._server.what} was not struck: {error}") from error
        finally:
            self._disarm()
        self._debt = self._healing.owe(Debt(f"continue {pod.name} of the {self._server.what}", self._continue))
        try:
            at = held.stop()
        except NoProcessError:
            self._healing.pay(self._debt)
            raise
        self._began = time.monotonic()
        return [(pod.who, at)]

    def endure(self) -> None:
        self._ended.wait(self._seconds)

    def heal(self) -> None:
        """Continue it, and see that it serves. Safe to repeat."""
        self._healing.pay(self._debt)
        wait_ready(self._server, self._ended)

    def after(self) -> list[str]:
        """The same container; another one when Kubernetes gave it up meanwhile."""
        with suppress(ClusterError, OSError):
            return [one.who for one in self._server.ready() if one.name == self._struck.pod.name]
        return []

    def evidence(self) -> dict[str, Any]:
        return {"stopped_s": self._stopped_s, **self._told}

    def _hold(self, pod: ServerPod) -> HeldStop:
        return HeldStop(self._server, pod, self._seconds + SPARE_S)

    def _continue(self) -> None:
        # Taken before the signal: a process that was stopped a little longer is no worse, a shorter stop is.
        if self._began and self._stopped_s is None:
            self._stopped_s = round(time.monotonic() - self._began, 3)
        # Where its pod is gone nothing stands still.
        with suppress(NoProcessError):
            self._struck.resume()

    def _disarm(self) -> None:
        for held in self._held.values():
            held.close()
        self._held.clear()
