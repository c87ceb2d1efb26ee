"""A server whose disk is slow for a while: it answers as before, and later."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any, Protocol

import psutil

from tests.harness.adapters.disk_probes import Probe
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.slow_disk import SlowDisk
from tests.harness.faults.fault import Lasting, now_ms
from tests.harness.faults.healing import Debt, Healing
from tests.harness.faults.slowable import Slowable
from tests.harness.schedule import PlannedFault
from tests.harness.slow_disk_sorts import DELAYS_MS

LEAST = 3
"""So many writes are measured before, while it lasts, and after."""
FAILURES = 2 * LEAST
"""So many writes may fail before, and afterwards."""
BUSY_S = 60.0
"""So long at most a disk is waited for that is as slow by itself: beside it a delay would show nothing."""
LONGEST_S = 60.0
"""So long at most it lasts beyond its plan, until as many writes were measured."""
EVERY_S = 0.2


class Supervised(Protocol):
    """Who runs drivers, in processes or pods."""

    under: str | None


class SlowedServer(Lasting):
    """Every file-system call of a server and of the processes below it takes longer.

    It has hit when a write of ours, which has to touch the disk, took less than one delay before, and none less
    meanwhile: what the injector says of itself does not count.

    Args:
        drivers: whose pipeline uses it; those that end of that meanwhile are news of the server.
        server: whom.
        role: what it is.
        disk: slows it.
        probe: writes.
        healing: has it let go whatever happens.
    """

    # The epoch that is struck may be nearly done: those that come next are to meet it too.
    flowing = True

    def __init__(
        self, drivers: Supervised, server: Slowable, role: str, disk: SlowDisk, probe: Probe, *, healing: Healing
    ) -> None:
        super().__init__(healing)
        self._drivers, self._server, self._role = drivers, server, role
        self._disk, self._probe = disk, probe
        self._debt = Debt(f"let the disk of the {role} be as fast as it was", self._undo)
        self._delay_ms = DELAYS_MS[0]
        self._held_at = 0.0
        self._slowed_s: float | None = None
        self._took_ms: dict[str, list[float]] = {"before": [], "during": [], "after": []}

    def prepare(self, planned: PlannedFault) -> None:
        super().prepare(planned)
        # The same plan takes the same.
        self._delay_ms = random.Random(f"delay of {planned}").choice(DELAYS_MS)

    def arm(self) -> None:
        """Wait until it serves, and measure. Raises ClusterTimeoutError."""
        self._server.wait_ready()
        self._measure("before")

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        who, family = self._server.family(event)
        if len(self._took_ms["before"]) < LEAST:
            raise NoProcessError(f"how fast the {self._role} writes is not known")
        self._healing.strike(self._debt, lambda: self._slow(family))
        return [(who, now_ms())]

    def endure(self) -> None:
        """As long as planned, and longer until enough writes were measured; no longer than strace holds it."""
        assert self._debt.since is not None
        while self._holds() and not self._healing.ended.wait(EVERY_S):
            lasted = time.monotonic() - self._debt.since
            enough = len(self._took_ms["during"]) >= LEAST or lasted >= self._seconds + LONGEST_S
            if enough and lasted >= self._seconds:
                return
            with suppress(Exception):  # who gave a write up has measured nothing
                took_s = self._probe()
                # Strace may have ended beneath it.
                if self._holds():
                    self._took_ms["during"].append(1000 * took_s)

    def heal(self) -> None:
        """Have it as fast as it was, and see that it serves. Raises ClusterTimeoutError."""
        super().heal()
        self._server.wait_ready()
        if not self._took_ms["after"] and self._debt.since is not None:
            self._measure("after")

    def after(self) -> list[str]:
        """The server, which was there all the time, or who is there in its place."""
        return self._server.present()

    def landed(self) -> bool:
        """Whether it was slow as long as planned, as what was written before and meanwhile shows."""
        told = self._latencies()
        if "before" not in told or len(self._took_ms["during"]) < LEAST:
            return False
        slow = told["before"] < self._delay_ms <= told["fastest"]
        return slow and (self._slowed_s or 0.0) >= self._seconds

    def evidence(self) -> dict[str, Any]:
        return {
            "planned_s": self._seconds,
            "slowed_s": self._slowed_s,
            "delay_ms": self._delay_ms,
            "latency_ms": self._latencies(),
            **self._server.why,
        }

    def _slow(self, family: Sequence[psutil.Process]) -> None:
        self._disk.attach(family, self._delay_ms)
        self._drivers.under = f"a slow disk of the {self._role}"

    def _holds(self) -> bool:
        """Whether strace still holds it, and when that was known last."""
        if holds := self._disk.holds():
            self._held_at = time.monotonic()
        return holds

    def _measure(self, when: str) -> None:
        """Keep what the last writes took, once they took less than a delay or the disk has been waited for."""
        took: deque[float] = deque(maxlen=LEAST)
        until, failed = time.monotonic() + BUSY_S, 0
        while failed <= FAILURES and not self._healing.ended.is_set():
            try:
                took.append(1000 * self._probe())
            except Exception:  # a server may have to come back first; another try tells
                failed += 1
            if len(took) == LEAST and (median(took) < self._delay_ms or time.monotonic() >= until):
                break
        self._took_ms[when] = list(took)

    def _latencies(self) -> dict[str, float]:
        """The median of writes before, meanwhile and after, and the fastest meanwhile."""
        told = {when: median(took) for when, took in self._took_ms.items() if took}
        fastest = {"fastest": min(took)} if (took := self._took_ms["during"]) else {}
        return {name: round(took_ms, 3) for name, took_ms in {**told, **fastest}.items()}

    def _undo(self) -> None:
        # Taken before it is undone: one that lasted a little longer is no worse, a shorter one is.
        # Where strace had ended, a write that nobody answers may have hidden for how long.
        if self._debt.since is not None and self._slowed_s is None:
            self._holds()
            self._slowed_s = round(max(self._held_at - self._debt.since, 0.0), 3)
        self._disk.detach()
        if self._debt.since is not None:
            self._drivers.under = None
