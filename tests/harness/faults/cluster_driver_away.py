"""A driver in pods that is away: killed while its application is suspended, so that the operator starts no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.harness.adapters.drivers import SIGKILL, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.cluster_driver import find_successor
from tests.harness.faults.fault import Lasting
from tests.harness.faults.healing import Debt, Healing

AFTER_S = 240.0
"""The operator finishes a suspension before it resumes: it waits for the end of every pod."""


class AwayDriverPod(Lasting):
    """The driver gets SIGKILL, and the operator is kept from starting the next one before `planned_s` have passed.

    Args:
        drivers: whose driver.
        watch: what is announced.
        healing: lets drivers be started whatever happens.
    """

    after_s = AFTER_S

    def __init__(self, drivers: SupervisedPods, watch: Watch, healing: Healing) -> None:
        super().__init__(healing)
        self._drivers, self._watch = drivers, watch
        self._debt = Debt("let drivers be started again", drivers.resume)
        self._struck: Struck

    def arm(self) -> None:
        self._drivers.arm_driver(SIGKILL)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._struck = self._healing.strike(self._debt, self._blow)
        return [self._struck]

    def after(self) -> list[str]:
        return find_successor(self._drivers, self._watch, *self._struck)

    def evidence(self) -> dict[str, Any]:
        return {"planned_s": self._seconds}

    def _blow(self) -> Struck:
        # Before the kill: the operator starts the next one within moments. What it does of a suspension, SIGTERM to the
        # driver, comes some 0.1 s later, when the word of the session that was opened before has killed it.
        self._drivers.suspend()
        return self._drivers.kill_driver(SIGKILL)
