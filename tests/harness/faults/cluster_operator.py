"""Operator and driver struck together, in both orders, and the operator between a submission and its status."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from tests.harness.adapters.armed import ArmedSignal
from tests.harness.adapters.cluster import ClusterTimeoutError, state_of
from tests.harness.adapters.drivers import SIGKILL, NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.pod_log import DRIVER
from tests.harness.adapters.server_pods import READY_S, ServerPod, ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.cluster_driver import find_successor
from tests.harness.faults.cluster_server import wait_ready
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Debt, Healing
from tests.harness.platform_sorts import AT_SUBMISSION, DRIVER_FIRST, OPERATOR_FIRST

UNSEEN = ("RUNNING", "SUBMITTED")
"""State of a SparkApplication of which the operator has not noticed that the driver ended."""
WRITTEN = ("SUBMITTED", "RUNNING")
SUBMITTED_S, LOOK_S = 90.0, 0.005
SETTLED_S, GONE_S, AFTER_S = 15.0, 90.0, 240.0
TOUCHED = "effectively-once/touched-for"
"""Any change of the object makes the operator look at it; this annotation means nothing else."""


class OperatorWithDriver(Fault):
    """Operator and driver get SIGKILL, one right after the other; the operator that comes back finds the driver dead.

    Args:
        operator: its pod.
        drivers: whose driver.
        watch: what is announced.
        order: OPERATOR_FIRST or DRIVER_FIRST; the latter counts only if the operator had not yet acted.
        healing: told that the operator has to come back.
    """

    lasting = True
    after_s = AFTER_S

    def __init__(
        self, operator: ServerPods, drivers: SupervisedPods, watch: Watch, order: str, *, healing: Healing
    ) -> None:
        self._operator, self._drivers, self._watch, self._order = operator, drivers, watch, order
        self._healing = healing
        self._armed: ArmedSignal | None = None
        self._before: ServerPod
        self._driver: Struck
        self._state = ""
        self._debt = Debt("see the operator ready again", self._see_ready, server=True)

    def arm(self) -> None:
        """Wait for both, and open a session in each. Raises ClusterTimeoutError."""
        wait_ready(self._operator, self._healing.ended)
        self._drivers.arm_driver(SIGKILL)
        self._disarm()
        with suppress(NoProcessError):
            self._before = self._operator.chosen({})
            self._armed = self._operator.killer(self._before)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        try:
            if self._armed is None:
                raise NoProcessError("the operator cannot be entered")
            return self._both(self._armed)
        except ClusterError as error:
            raise NoProcessError(f"operator and driver were not struck: {error}") from error
        finally:
            self._disarm()

    def endure(self) -> None:
        """Until the operator is back. Raises ClusterTimeoutError."""
        self._operator.cluster.wait_for(
            "the operator to be ready again",
            lambda: self._healing.ended.is_set() or bool(self._fresh()),
            READY_S,
            self._operator.describe,
        )

    def heal(self) -> None:
        self._healing.pay(self._debt)

    def after(self) -> list[str]:
        """Driver and operator that work in their places."""
        driver, operator = find_successor(self._drivers, self._watch, *self._driver), self._fresh()
        return [*driver, *operator] if driver and operator else []

    def evidence(self) -> dict[str, Any]:
        return {"application_state": self._state}

    def _both(self, armed: ArmedSignal) -> list[Struck]:
        if self._order == OPERATOR_FIRST:
            operator = self._kill(armed)
            self._driver = self._drivers.kill_driver(SIGKILL)
        else:
            self._driver = self._drivers.kill_driver(SIGKILL)
            operator = self._kill(armed)
        self._state = state_of(self._drivers.cluster.application(self._drivers.name))
        if self._order == DRIVER_FIRST and self._state not in UNSEEN:
            raise NoProcessError(f"the operator had noticed the driver's end: {self._state}")
        return [self._driver, operator]

    def _kill(self, armed: ArmedSignal) -> Struck:
        armed.word()
        # Where the shell's answer is lost, that another container comes tells that this one fell.
        at, _ = armed.struck()
        self._healing.owe(self._debt)
        return self._before.who, at

    def _fresh(self) -> list[str]:
        with suppress(ClusterError, OSError):
            return [one.who for one in self._operator.ready() if one.who != self._before.who][:1]
        return []

    def _see_ready(self) -> None:
        if not self._fresh():
            wait_ready(self._operator, threading.Event(), GONE_S)

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.close()
        self._armed = None


class OperatorAtSubmission(OperatorWithDriver):
    """The driver gets SIGKILL, and the operator too when the next driver's pod is there and no status tells of it.

    Operator 2.5.2 then does not find back (`PENDING_RERUN`, the events of a pod whose submission it does not know are
    dropped): the driver works, but nobody would start the next one. So it is healed by hand: the pod is deleted, and
    the object touched.
    """

    def __init__(self, operator: ServerPods, drivers: SupervisedPods, watch: Watch, *, healing: Healing) -> None:
        super().__init__(operator, drivers, watch, AT_SUBMISSION, healing=healing)
        self._settled = False
        self._by_hand = False

    def heal(self) -> None:
        """See whether the operator knows the driver, else help. Safe to repeat. Raises ClusterTimeoutError.

        When the run ends nothing of this is owed: the application is the run's own and goes with it.
        """
        super().heal()
        if not self._settled and not self._healing.ended.is_set():
            self._make_known()
            self._settled = True

    def evidence(self) -> dict[str, Any]:
        return {**super().evidence(), "healed_by_hand": self._by_hand}

    def _both(self, armed: ArmedSignal) -> list[Struck]:
        # Before: the next one may be there as soon as the kill is known.
        known = {pod.uid for pod in self._drivers.log.pods(DRIVER)}
        self._driver = self._drivers.kill_driver(SIGKILL)
        self._watch_for_next(known)
        operator = self._kill(armed)
        self._state = state_of(self._drivers.cluster.application(self._drivers.name))
        if self._state in WRITTEN:
            raise NoProcessError(f"the operator had written the submission's status: {self._state}")
        return [self._driver, operator]

    def _watch_for_next(self, known: set[str]) -> None:
        """Return at the moment when the next driver's pod is there."""
        tries = int(SUBMITTED_S / LOOK_S)
        for _ in range(tries):
            if any(pod.uid not in known for pod in self._drivers.log.pods(DRIVER)):
                return
            if self._healing.ended.wait(LOOK_S):
                break
        raise NoProcessError(f"no driver followed {self._driver[0]} within {SUBMITTED_S:.0f} s")

    def _make_known(self) -> None:
        drivers = self._drivers
        cluster, name = drivers.cluster, drivers.name

        def state() -> str:
            return state_of(cluster.application(name))

        try:
            what = f"the operator to know the driver of {name}"
            cluster.wait_for(what, lambda: state() in WRITTEN, SETTLED_S, state)
        except ClusterTimeoutError:
            self._by_hand = True
        else:
            return
        pod = drivers.log.pods(DRIVER)[-1]
        drivers.excuse(pod)
        with suppress(NoProcessError):
            cluster.delete_pod(pod.name, pod.uid, None)
        # Not its end counts, but that the object is gone: while there is one the operator waits.
        cluster.wait_for(f"pod {pod.name} to be gone", lambda: self._gone(pod.uid), GONE_S, lambda: pod.who)
        cluster.patch_application(name, {"metadata": {"annotations": {TOUCHED: self._before.name}}})

    def _gone(self, uid: str) -> bool:
        now = self._drivers.log.pod(uid)
        return now is None or not now.present
