"""Processes in a pod that stand still until they are continued, and for how long they did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Generic, TypeVar

from infra.cluster.api import ClusterError
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.held_pod import HeldPod
from tests.harness.adapters.pod_shell import Enterable
from tests.harness.faults.fault import as_miss
from tests.harness.faults.healing import Debt, Healing

_Pod = TypeVar("_Pod", bound=Enterable)


class StoppedPod(Generic[_Pod]):
    """Who stands still in one of several pods, each of which has a session opened before.

    Args:
        role: of who stands still, for messages.
        enter: opens the session that stops and continues them. Raises NoProcessError.
        healing: has them continued whatever happens.

    Attributes:
        pod: that was chosen.
        held: the session there.
        debt: to continue them, and for how long they stood still.
    """

    pod: _Pod
    held: HeldPod
    debt: Debt

    def __init__(self, role: str, enter: Callable[[_Pod], HeldPod], healing: Healing) -> None:
        self._role, self._enter, self._healing = role, enter, healing
        self._armed: dict[str, HeldPod] = {}

    def arm(self, pods: Iterable[_Pod]) -> None:
        """Open a session in each pod that may be struck."""
        self.disarm()
        for pod in pods:
            # One that cannot be entered now is entered when it is struck.
            with suppress(NoProcessError):
                self._armed[pod.who] = self._enter(pod)

    def disarm(self) -> None:
        """End the sessions that were not needed."""
        for held in self._armed.values():
            held.close()
        self._armed.clear()

    def stop(self, choose: Callable[[], _Pod], number: int | None = None) -> int:
        """Stop them in the pod that is chosen now; when all stood still (ms).

        Args:
            choose: raises NoProcessError, ClusterError.
            number: see HeldPod.

        Raises:
            NoProcessError: nobody was stopped, or all are continued.
        """
        try:
            with as_miss(f"the {self._role} was not struck", ClusterError):
                self.pod = choose()
                self.held = self._armed.pop(who) if (who := self.pod.who) in self._armed else self._enter(self.pod)
        finally:
            self.disarm()
        self.debt = Debt(f"continue the {self._role} in {self.pod.name}", self._continue)
        return self._healing.strike(self.debt, lambda: self.held.stop(number))

    def _continue(self) -> None:
        # Where its pod is gone nothing stands still.
        with suppress(NoProcessError):
            self.held.resume()
