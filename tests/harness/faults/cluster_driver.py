"""Drivers in pods: killed, or their pods deleted, so that the operator starts the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.harness.adapters.drivers import SIGKILL, NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.pod_log import driver_name
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.fault import Fault


class EndedDriver(Fault):
    """The driver gets SIGKILL, or its pod is deleted without grace, whoever announced the step."""

    def __init__(self, drivers: SupervisedPods, watch: Watch, kind: str = SIGKILL) -> None:
        self._drivers, self._watch, self._kind = drivers, watch, kind
        self._struck: Struck

    def arm(self) -> None:
        self._drivers.arm_driver(self._kind)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._struck = self._drivers.kill_driver(self._kind)
        return [self._struck]

    def after(self) -> list[str]:
        return find_successor(self._drivers, self._watch, *self._struck)


def find_successor(drivers: SupervisedPods, watch: Watch, former: str, at: int) -> list[str]:
    """The driver that runs now, when it is another pod and has taken the chain over since."""
    try:
        pod = drivers.running()
    except NoProcessError:
        return []
    if pod.who == former:
        return []
    return [pod.who] if watch.find_announced("driver", at, state="started", pid=driver_name(pod)) else []
