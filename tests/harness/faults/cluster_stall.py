"""What stalls in pods have in common: a session there that stops processes, and continues them whatever happens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.held_pod import Held, HeldPod
from tests.harness.adapters.pod_shell import Enterable
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.healing import SPARE_S
from tests.harness.faults.stall import Stall
from tests.harness.faults.stopped_pod import StoppedPod


class StalledPod(Stall):
    """Somebody in a pod stands still, held by a session there.

    Args:
        drivers: whose pipeline it is.
        cluster: the namespace of the pod.
        held: who stands still.
        owed: see Stall.
    """

    _drivers: SupervisedPods

    def __init__(self, drivers: SupervisedPods, cluster: Cluster, held: Held, **owed: Any) -> None:
        super().__init__(drivers, owed.pop("role", held.what), **owed)
        self._cluster, self._held = cluster, held
        self._stopped: StoppedPod[Any] = StoppedPod(self._role, self._enter, self._healing)

    def arm(self) -> None:
        """Wait until all are there, and open a session in each pod that may be struck. Raises ClusterTimeoutError."""
        self._await()
        self._stopped.arm(self._there())

    def disarm(self) -> None:
        self._stopped.disarm()

    def _stop(self, event: Mapping[str, Any]) -> Struck:
        at = self._stopped.stop(lambda: self._choose(event), self._number(event))
        self._debt = self._stopped.debt
        return self._named(self._stopped.pod), at

    def _gone(self) -> bool:
        return self._drivers.gone(self._stopped.pod.who)

    def _enter(self, pod: Enterable) -> HeldPod:
        return HeldPod(self._cluster, pod, self._held, self._seconds + SPARE_S)

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
    def _choose(self, event: Mapping[str, Any]) -> Enterable:
        """The one to strike. Raises NoProcessError, ClusterError."""
