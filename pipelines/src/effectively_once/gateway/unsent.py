"""Event times of records that were put and are not acknowledged: the least of them is what a gateway can vouch for."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

STEP_MS = 1_000
"""Times are kept in steps of this: a buffer of any size takes a number for each second that it spans."""


def clock_ms() -> int:
    """Return ms since 1970."""
    return time.time_ns() // 1_000_000


class Unsent:
    """Counts unacknowledged records by event time. Threads share it.

    Args:
        disorder_ms: by how much the event time of a put may be behind the clock.
        now_ms: the clock.

    """

    def __init__(self, disorder_ms: int, now_ms: Callable[[], int] = clock_ms) -> None:
        self._disorder_ms, self._now_ms = disorder_ms, now_ms
        self._lock = threading.Lock()
        self._open: Counter[int] = Counter()
        self._said: int | None = None
        self.behind = 0

    def begin(self, event_time_ms: int | None) -> int:
        """Take note of a record before anything of it is durable; return its event time, by default now.

        The clock is read under the lock: no statement can come between, whose moment this record would be before.
        """
        with self._lock:
            at = self._now_ms() if event_time_ms is None else event_time_ms
            self._open[at // STEP_MS] += 1
            self.behind += self._said is not None and at < self._said
            return at

    def end(self, event_time_ms: int) -> None:
        """Forget a record: it is acknowledged, or was never accepted."""
        with self._lock:
            step = event_time_ms // STEP_MS
            self._open[step] -= 1
            if not self._open[step]:
                del self._open[step]

    def vouch(self) -> int:
        """Return the moment (ms since 1970) before which no record is unsent, and none is expected any more."""
        with self._lock:
            at = self._now_ms() - self._disorder_ms
            if self._open:
                at = min(at, min(self._open) * STEP_MS)
            # What was said stands: a clock that was set back takes nothing back.
            self._said = at if self._said is None else max(self._said, at)
            return self._said
