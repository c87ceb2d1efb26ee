"""Executors: ended, one or all at once, wherever they are; or stopped for longer than their driver waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psutil

from infra.embedded.process import descendants
from infra.embedded.spark import executor_of
from tests.harness.adapters.drivers import Drivers, NoProcessError, Struck
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.faults.stopped import Standstill


class EndedExecutors(Fault):
    """The executor that announced a step, or every executor, is ended as `kind` says; Spark starts others."""

    def __init__(self, drivers: Drivers, kind: str, *, everyone: bool) -> None:
        self._drivers, self._kind, self._everyone = drivers, kind, everyone
        self._victims: list[str] = []
        self._before: set[str] = set()

    def arm(self) -> None:
        self._drivers.arm(self._kind)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        struck = (
            self._drivers.kill_executors(self._kind)
            if self._everyone
            else [self._drivers.kill_executor(event, self._kind)]
        )
        self._victims = [who for who, _ in struck]
        self._before = {*self._victims, *self._drivers.executors()}
        return struck

    def after(self) -> list[str]:
        fresh = [one for one in self._drivers.executors() if one not in self._before]
        done = len(fresh) >= len(self._victims) and all(self._drivers.gone(who) for who in self._victims)
        return fresh[: len(self._victims)] if done else []


class StoppedExecutor(Standstill):
    """The executor that announced a step stands still, with its Python workers, and is then continued.

    Args:
        drivers: whose executors are counted.
        seconds: longer than the time-out of heartbeats: its driver has then given it up, and started another.
        healing: continues it whatever happens.
    """

    def __init__(self, drivers: Drivers, seconds: float, healing: Healing) -> None:
        super().__init__("executor", healing, seconds)
        self._drivers, self._before = drivers, set[str]()

    def after(self) -> list[str]:
        alive = self._drivers.executors()
        fresh = [one for one in alive if one not in self._before]
        return fresh[:1] or [one for one in alive if one == self._struck[0]]

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        victim = executor_of(event["pid"])
        if victim is None:
            raise NoProcessError(f"no executor for worker {event['pid']}")
        self._before = set(self._drivers.executors())
        return [victim, *descendants(victim.pid)]
