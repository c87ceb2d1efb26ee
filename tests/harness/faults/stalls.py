"""Who stands still on the embedded stack: executors, their JVM alone, Python workers, drivers, servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psutil

from infra.embedded.process import descendants, identity
from infra.embedded.spark import executor_of, executors
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.embedded import ProcessDrivers
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.driver import find_successor
from tests.harness.faults.fault import process_of
from tests.harness.faults.server import Restartable, family, present
from tests.harness.faults.stall import StalledProcesses, StallOfServer


class StalledExecutor(StalledProcesses):
    """The executor that announced a step, or after a declaration one of those that run, stands still.

    Args:
        drivers: whose executors.
        alone: its JVM alone, while its Python workers run on; else they stand still with it.
        owed: see Stall.
    """

    def __init__(self, drivers: ProcessDrivers, *, alone: bool, **owed: Any) -> None:
        super().__init__(drivers, "executor", **owed)
        self._alone = alone

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        there = executors(_driver(self._drivers.driver))
        victim = executor_of(event["pid"]) if event["event"] == "step" else self._draw_one(there)
        if victim is None:
            raise NoProcessError(f"no executor for worker {event['pid']}")
        return [victim, *([] if self._alone else descendants(victim.pid))]

    def _present(self) -> list[str]:
        return self._executor()


class StalledNeighbours(StalledExecutor):
    """Every executor but the one that announced a step stands still, with its Python workers."""

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        reading = executor_of(event["pid"])
        beside = [one for one in executors(_driver(self._drivers.driver)) if one != reading]
        if reading is None or not beside:
            raise NoProcessError(f"no executor beside that of worker {event['pid']}")
        return [process for one in beside for process in (one, *descendants(one.pid))]


class StalledWorker(StalledProcesses):
    """The Python worker that announced a step, or after a declaration one of those that are there, stands still.

    Args:
        drivers: whose executors' workers.
        watch: what they announce.
        owed: see Stall.
    """

    def __init__(self, drivers: ProcessDrivers, watch: Watch, **owed: Any) -> None:
        super().__init__(drivers, "python worker", **owed)
        self._watch = watch

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        if event["event"] == "step":
            return [process_of(event["pid"])]
        return [self._draw_one(workers(_driver(self._drivers.driver)))]

    def _present(self) -> list[str]:
        """Itself; when it has ended, one that announced since a step of its shard, or of any where none was named."""
        who, at = self._struck
        if not self._stopped.gone():
            return [who]
        told = [one["pid"] for one in self._watch.steps_after(self._event, at)]
        return [found for pid in told[-20:] if (found := identity(pid)) is not None and found != who][:1]


class StalledDriver(StalledProcesses):
    """The driver's process and its JVM stand still; its executors run on.

    Args:
        drivers: whose driver.
        watch: what is announced.
        owed: see Stall.
    """

    _drivers: SupervisedDrivers

    def __init__(self, drivers: SupervisedDrivers, watch: Watch, **owed: Any) -> None:
        super().__init__(drivers, "driver", **owed)
        self._watch = watch

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        pid = _driver(self._drivers.driver)
        kept = {one.pid for executor in executors(pid) for one in (executor, *descendants(executor.pid))}
        return [process_of(pid), *(one for one in descendants(pid) if one.pid not in kept)]

    def _present(self) -> list[str]:
        pid = self._drivers.driver
        if isinstance(pid, int) and identity(pid) == self._struck[0]:
            return [self._struck[0]]
        return find_successor(self._drivers, self._watch, *self._struck)


class StalledServer(StallOfServer, StalledProcesses):
    """A server and the processes below it stand still.

    Args:
        drivers: whose pipeline uses it.
        server: whom.
        role: what it is.
        owed: see Stall.
    """

    def __init__(self, drivers: SupervisedDrivers, server: Restartable, role: str, **owed: Any) -> None:
        super().__init__(drivers, role, **owed)
        self._server = server

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        return family(self._server)

    def _present(self) -> list[str]:
        return present(self._server)


def workers(driver_pid: int) -> list[psutil.Process]:
    """The Python workers of a driver's executors, by number: children of what an executor started to fork them."""
    found = []
    for executor in executors(driver_pid):
        try:
            found += [worker for daemon in executor.children() for worker in daemon.children()]
        except psutil.NoSuchProcess:
            continue
    return sorted(found, key=lambda one: one.pid)


def _driver(pid: int | str | None) -> int:
    if not isinstance(pid, int) or identity(pid) is None:
        raise NoProcessError("no driver runs")
    return pid
