"""Who stands still on the embedded stack: executors, their JVM alone, Python workers, drivers, servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psutil

from infra.embedded.process import descendants, identity
from infra.embedded.spark import executor_of, executors
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.embedded import ProcessDrivers
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.faults.driver import taken_over
from tests.harness.faults.fault import process_of
from tests.harness.faults.server import Restartable
from tests.harness.faults.stall import StalledProcesses


class StalledExecutor(StalledProcesses):
    """The executor that announced a step, or after a declaration one of those that run, stands still.

    Args:
        drivers: whose executors.
        alone: its JVM alone, while its Python workers run on; else they stand still with it.
        owed: see Stall.
    """

    def __init__(self, drivers: ProcessDrivers, *, alone: bool, **owed: Any) -> None:
        super().__init__(drivers, "executor", **owed)
        self._alone, self._before = alone, set[str]()

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        self._before = set(self._drivers.executors())
        there = executors(_driver(self._drivers.driver))
        victim = executor_of(event["pid"]) if event["event"] == "step" else self._drawn(there)
        if victim is None:
            raise NoProcessError(f"no executor for worker {event['pid']}")
        return [victim, *([] if self._alone else descendants(victim.pid))]

    def _present(self) -> list[str]:
        alive = self._drivers.executors()
        if self._struck[0] in alive:
            return [self._struck[0]]
        return [one for one in alive if one not in self._before][:1]


class StalledNeighbours(StalledExecutor):
    """Every executor but the one that announced a step stands still, with its Python workers."""

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        self._before = set(self._drivers.executors())
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
        return [self._drawn(workers(_driver(self._drivers.driver)))]

    def _present(self) -> list[str]:
        """Itself; when it has ended, one that announced since a step of its shard, or of any where none was named."""
        who, at = self._struck
        if not self._stopped.gone():
            return [who]
        with self._watch.changed:
            told = [
                one["pid"]
                for one in self._watch.seen
                if one["event"] == "step"
                and one["t"] >= at
                and one["shard"] == self._event.get("shard", one["shard"])
                and one["epoch"] >= self._event["epoch"]
            ]
        return [found for pid in told[-20:] if (found := identity(pid)) is not None and found != who][:1]


class StalledDriver(StalledProcesses):
    """The driver's process and its JVM stand still; its executors run on.

    Args:
        drivers: whose driver.
        watch: what is announced.
        owed: see Stall.
    """

    def __init__(self, drivers: SupervisedDrivers, watch: Watch, **owed: Any) -> None:
        super().__init__(drivers, "driver", **owed)
        self._watch, self._supervised = watch, drivers

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        pid = _driver(self._drivers.driver)
        kept = {one.pid for executor in executors(pid) for one in (executor, *descendants(executor.pid))}
        return [process_of(pid), *(one for one in descendants(pid) if one.pid not in kept)]

    def _present(self) -> list[str]:
        pid = self._drivers.driver
        if isinstance(pid, int) and identity(pid) == self._struck[0]:
            return [self._struck[0]]
        return taken_over(self._supervised, self._watch, *self._struck)


class StalledServer(StalledProcesses):
    """A server and the processes below it stand still. Drivers that end of that meanwhile are news of the server.

    Args:
        drivers: whose pipeline uses it.
        server: whom.
        role: what it is.
        owed: see Stall.
    """

    def __init__(self, drivers: SupervisedDrivers, server: Restartable, role: str, **owed: Any) -> None:
        super().__init__(drivers, role, **owed)
        self._server, self._supervised = server, drivers

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        struck = super().strike(event)
        self._supervised.under = f"a stall of the {self._role}"
        return struck

    def heal(self) -> None:
        super().heal()
        self._supervised.under = None

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        if not self._server.running():
            raise NoProcessError(f"the {self._server.name} does not run")
        process = process_of(self._server.pid)
        return [process, *descendants(process.pid)]

    def _present(self) -> list[str]:
        who = identity(self._server.pid) if self._server.running() else None
        return [who] if who else []


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
