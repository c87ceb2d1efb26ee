"""What all stalls have in common, of processes of this machine and in pods: a length from the plan, what came of it."""

from __future__ import annotations

import random
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import psutil

from tests.harness.adapters.drivers import Drivers, NoProcessError, Struck
from tests.harness.faults.fault import POLL_S, Lasting
from tests.harness.faults.healing import Healing
from tests.harness.faults.response import Response
from tests.harness.faults.stopped import Stopped
from tests.harness.schedule import PlannedFault

SETTLE_S = 5.0
"""Whoever was given up while it stood still gets its SIGTERM with the SIGCONT, and ends within moments."""
_One = TypeVar("_One")


class Stall(Lasting):
    """Somebody stands still for as long as the plan says, and goes on: in the same place, or after another took it.

    Args:
        drivers: whose pipeline it is.
        role: of who stands still, as the response names it.
        time_out_s: after so long somebody gives it up.
        healing: continues it whatever happens.
        settle_s: so long after it went on its successor is waited for, where it stood still beyond `time_out_s`.
    """

    def __init__(
        self, drivers: Drivers, role: str, *, time_out_s: float, healing: Healing, settle_s: float = SETTLE_S
    ) -> None:
        super().__init__(healing)
        self._drivers, self._role, self._time_out_s, self._settle_s = drivers, role, time_out_s, settle_s
        self._draw = random.Random(0)
        self._event: Mapping[str, Any] = {}
        self._response: Response
        self._struck: Struck
        self._settled_at = 0.0
        self._after: list[str] = []

    def prepare(self, planned: PlannedFault) -> None:
        super().prepare(planned)
        # The same plan takes the same one of several.
        self._draw = random.Random(f"victim of {planned}")

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._event, self._response = event, Response(self._drivers)
        self._struck = self._stop(event)
        return [self._struck]

    def endure(self) -> None:
        """As long as planned, and no longer than one of those that stand still is left."""
        deadline = time.monotonic() + self._seconds
        while (left_s := deadline - time.monotonic()) > 0 and not self._gone():
            if self._healing.ended.wait(min(POLL_S, left_s)):
                return

    def heal(self) -> None:
        super().heal()
        self._settled_at = self._settled_at or time.monotonic() + self._settle_s

    def after(self) -> list[str]:
        """Who works in its place; itself only once it is clear that nobody gives it up any more."""
        found = self._present()
        outlasted = self._stopped_s > self._time_out_s
        if found == [self._struck[0]] and outlasted and time.monotonic() < self._settled_at:
            return []
        self._after = found
        return found

    def landed(self) -> bool:
        """Whether it stood still as long as planned, or another one took its place before."""
        return self._stopped_s >= self._seconds or self._replaced()

    def evidence(self) -> dict[str, Any]:
        return {
            "planned_s": self._seconds,
            "stopped_s": self._debt.lasted_s,
            "response": self._response.read(self._role if self._replaced() else None),
        }

    def _replaced(self) -> bool:
        return bool(self._after) and self._struck[0] not in self._after

    def _draw_one(self, there: Sequence[_One]) -> _One:
        """One of several, by the plan. Raises NoProcessError: there is none."""
        if not there:
            raise NoProcessError(f"there is no {self._role} to stop")
        return self._draw.choice(there)

    @property
    def _stopped_s(self) -> float:
        """For how long somebody stood still; 0 before it is over."""
        return self._debt.lasted_s or 0.0

    def _executor(self) -> list[str]:
        """The executor that was struck; where it has ended, one that came since, or nobody."""
        there = self._drivers.executors()
        return [self._struck[0]] if self._struck[0] in there else self._response.fresh(there)[:1]

    @abstractmethod
    def _stop(self, event: Mapping[str, Any]) -> Struck:
        """Stop whoever it is, with a debt to continue them. Raises NoProcessError, with all of them continued."""

    @abstractmethod
    def _gone(self) -> bool:
        """Whether nobody is left who stands still."""

    @abstractmethod
    def _present(self) -> list[str]:
        """Who works now: who was struck, another one in its place, or nobody."""


class StalledProcesses(Stall):
    """Processes of this machine."""

    _stopped: Stopped

    def _stop(self, event: Mapping[str, Any]) -> Struck:
        self._stopped = Stopped(self._role, self._victims(event), self._healing)
        self._debt = self._stopped.debt
        return self._stopped.stop()

    def _gone(self) -> bool:
        return self._stopped.all_gone()

    @abstractmethod
    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        """Who is to stand still, the one that counts as struck first. Raises NoProcessError."""


class StallOfServer(Stall):
    """A server stands still: drivers that end of that meanwhile are news of the server."""

    _drivers: Any

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        struck = super().strike(event)
        self._drivers.under = f"a stall of the {self._role}"
        return struck

    def heal(self) -> None:
        """Continue it, and see that it serves. Raises ClusterTimeoutError."""
        self._healing.pay(self._debt)
        try:
            self._await()
        finally:
            self._drivers.under = None
        super().heal()

    def _await(self) -> None:
        """Wait until it serves; here it does once it goes on."""
