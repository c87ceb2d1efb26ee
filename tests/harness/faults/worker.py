"""Python workers: killed, or stopped for longer than Spark waits for a sign of life."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import psutil

from infra.embedded.process import identity
from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.events import Watch
from tests.harness.faults.fault import Fault, kill, process_of
from tests.harness.faults.healing import Healing
from tests.harness.faults.stopped import Standstill

POLL_S = 0.2


class KilledWorker(Fault):
    """The worker that announced a step gets SIGKILL; its task runs again in another one."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._struck: Struck
        self._event: Mapping[str, Any] = {}

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._event, self._struck = event, kill(process_of(event["pid"]))
        return [self._struck]

    def after(self) -> list[str]:
        return followers(self._watch, self._event, *self._struck)


class HungWorker(Standstill):
    """The worker that announced a step stands still; Spark has to find out and to end it.

    Spark 4.2 sends SIGTERM (`ProcessHandle.destroy`), which reaches a stopped process when it is continued.

    Args:
        watch: what is announced.
        longest_s: it is continued then at the latest.
        healing: continues it whatever happens.
    """

    def __init__(self, watch: Watch, longest_s: float, healing: Healing) -> None:
        super().__init__("python worker", healing, longest_s)
        self._watch = watch
        self._event: Mapping[str, Any] = {}

    def endure(self) -> None:
        deadline = time.monotonic() + self._seconds
        while not self._stopped.gone() and time.monotonic() < deadline and not self._healing.ended.wait(POLL_S):
            pass

    def after(self) -> list[str]:
        """As for a killed one; the same worker where it outlived the stop."""
        others = followers(self._watch, self._event, *self._struck)
        return others or ([] if self._stopped.gone() else [self._struck[0]])

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        self._event = event
        return [process_of(event["pid"])]


def followers(watch: Watch, event: Mapping[str, Any], who: str, at: int) -> list[str]:
    """The worker that announced a step of the same shard since, of this epoch or, if it was done, a later one."""
    told = [one["pid"] for one in watch.steps_after(event, at) if one["pid"] != event["pid"]]
    return [found for pid in told[:20] if (found := identity(pid)) is not None and found != who][:1]
