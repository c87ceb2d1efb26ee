"""What stalls in pods have in common: a session there that stops processes, and continues them whatever happens."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.held_pod import Held, HeldPod
from tests.harness.adapters.pod_shell import Enterable
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.cluster_stop import SPARE_S
from tests.harness.faults.healing import Debt
from tests.harness.faults.stall import Stall


class StalledPod(Stall):
    """Somebody in a pod stands still, held by a session there.

    Args:
        drivers: whose pipeline it is.
        cluster: the namespace of the pod.
        held: who stands still.
        owed: see Stall.
    """

    def __init__(self, drivers: SupervisedPods, cluster: Cluster, held: Held, **owed: Any) -> None:
        super().__init__(drivers, owed.pop("role", held.what), **owed)
        self._pods_drivers, self._cluster, self._held = drivers, cluster, held
        self._armed: dict[str, HeldPod] = {}
        self._pod: Enterable
        self._holding: HeldPod
        self._debt: Debt
        self._began: float | None = None
        self._lasted_s: float | None = None

    def arm(self) -> None:
        """Wait until all are there, and open a session in each pod that may be struck. Raises ClusterTimeoutError."""
        self._await()
        self.disarm()
        for pod in self._there():
            # One that cannot be entered now is entered when it is struck.
            with suppress(NoProcessError):
                self._armed[pod.who] = self._entered(pod)

    def disarm(self) -> None:
        for held in self._armed.values():
            held.close()
        self._armed.clear()

    @property
    def _stopped_s(self) -> float | None:
        return self._lasted_s

    def _stop(self, event: Mapping[str, Any]) -> Struck:
        try:
            pod = self._pod = self._chosen(event)
            held = self._holding = self._armed.pop(pod.who) if pod.who in self._armed else self._entered(pod)
        except ClusterError as error:
            raise NoProcessError(f"the {self._role} was not struck: {error}") from error
        finally:
            self.disarm()
        self._debt = self._healing.owe(Debt(f"continue the {self._role} in {pod.name}", self._continue))
        try:
            at = held.stop(self._number(event))
        except NoProcessError:
            self._healing.pay(self._debt)
            raise
        self._began = time.monotonic()
        return self._named(pod), at

    def _resume(self) -> None:
        self._healing.pay(self._debt)

    def _continue(self) -> None:
        # Taken before the signal: a process that was stopped a little longer is no worse, a shorter stop is.
        if self._began is not None and self._lasted_s is None:
            self._lasted_s = round(time.monotonic() - self._began, 3)
        # Where its pod is gone nothing stands still.
        with suppress(NoProcessError):
            self._holding.resume()

    def _entered(self, pod: Enterable) -> HeldPod:
        return HeldPod(self._cluster, pod.name, pod.container, self._held, self._planned_s + SPARE_S)

    def _named(self, pod: Enterable) -> str:
        return pod.who

    def _number(self, event: Mapping[str, Any]) -> int | None:
        """The process that is meant, as its container numbers it; None where it is found there."""
        return None

    @abstractmethod
    def _await(self) -> None:
        """Wait until all who may be struck are there."""

    @abstractmethod
    def _there(self) -> Sequence[Enterable]:
        """The pods that may be struck."""

    @abstractmethod
    def _chosen(self, event: Mapping[str, Any]) -> Enterable:
        """The one to strike. Raises NoProcessError, ClusterError."""
