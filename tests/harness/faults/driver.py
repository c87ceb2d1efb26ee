"""Drivers: killed, or made a zombie that wakes when another has taken its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psutil

from infra.embedded.process import Child, descendants, identity
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.fault import Fault, process_of
from tests.harness.faults.healing import Healing
from tests.harness.faults.stopped import Standstill

STALE, STALE_EXIT = "StaleDriverError", 75
STALE_S = 300.0
"""A task that finds its driver replaced fails, and Spark tries it sixteen times before the driver hears of it."""
SAYS = 240
"""So many characters of a driver's last words are evidence."""


class KilledDriver(Fault):
    """The driver and its JVM get SIGKILL, whoever announced the step; who supervises it starts the next one."""

    def __init__(self, drivers: SupervisedDrivers, watch: Watch) -> None:
        self._drivers, self._watch = drivers, watch
        self._struck: Struck

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._struck = self._drivers.kill_driver()
        return [self._struck]

    def after(self) -> list[str]:
        return find_successor(self._drivers, self._watch, *self._struck)


class ZombieDriver(Standstill):
    """The driver stands still with all its executors; another takes over and publishes; the first one wakes.

    Args:
        drivers: whose driver.
        watch: what is announced.
        longest_s: how long the other one may take to publish; the first one is woken then at the latest.
        healing: wakes it whatever happens.
    """

    # A driver that had nothing left to do when it was stopped learns of its replacement from the next epoch.
    wants_records = True
    after_s = STALE_S
    _zombie: Child

    def __init__(self, drivers: SupervisedDrivers, watch: Watch, longest_s: float, healing: Healing) -> None:
        super().__init__("driver", healing, longest_s)
        self._drivers, self._watch = drivers, watch

    def endure(self) -> None:
        other = self._drivers.start_beside()

        def published() -> bool:
            return self._healing.ended.is_set() or bool(
                self._watch.find_announced("epoch", 0, state="published", driver=other)
            )

        self._watch.wait_for("the driver beside the zombie to publish", published, self._seconds, self._drivers.alive)

    def after(self) -> list[str]:
        """The driver that took over, once the zombie has ended."""
        return [] if self._zombie.running() else find_successor(self._drivers, self._watch, *self._struck)

    def evidence(self) -> dict[str, Any]:
        return {**super().evidence(), "refusal": refusal(self._zombie)}

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        child = self._zombie = running(self._drivers)
        return [process_of(child.pid), *descendants(child.pid)]


def running(drivers: SupervisedDrivers) -> Child:
    """The driver that runs. Raises NoProcessError."""
    if drivers.child is None or not drivers.child.running():
        raise NoProcessError("no driver runs")
    return drivers.child


def refusal(ended: Child) -> str | None:
    """How a zombie ended, when that was its named refusal; None when it ended otherwise."""
    lines = ended.log.read_text(errors="replace").splitlines()
    told = next((line for line in reversed(lines) if STALE in line), None)
    return f"exit code {STALE_EXIT}: {told.strip()[:SAYS]}" if told and ended.status() == STALE_EXIT else None


def find_successor(drivers: SupervisedDrivers, watch: Watch, former: str, at: int) -> list[str]:
    """The driver that runs now, when it is another one and has taken the chain over."""
    pid = drivers.driver
    who = identity(pid) if pid is not None else None
    if who is None or who == former:
        return []
    return [who] if watch.find_announced("driver", at, state="started", pid=pid) else []
