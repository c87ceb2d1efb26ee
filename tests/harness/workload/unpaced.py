"""What an unpaced sender needs: whose turn it is by the clock, and a look at the chain that never keeps it waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.harness.workload.errors import InputError
from tests.harness.workload.progress import Progress
from tests.harness.workload.record import Planned

LOOK_S = 0.5


class Turns:
    """The turns of records at a rate; who is behind catches up at once, as a gateway does after an outage.

    Args:
        rate: records a second.
        now_s: seconds from any beginning.
    """

    def __init__(self, rate: float, now_s: Callable[[], float] = time.monotonic) -> None:
        if rate <= 0:
            raise InputError(f"rate is {rate:g} records/s: it must be more than 0")
        self._rate, self._now_s, self._began_s, self._taken = rate, now_s, now_s(), 0

    def left_s(self) -> float:
        """How long until the next turn, in s; 0 or less when it is due."""
        return self._began_s + self._taken / self._rate - self._now_s()

    def take(self) -> None:
        """Take the turn."""
        self._taken += 1


class Aside:
    """Late records that wait for a watermark, so that nobody behind them does."""

    def __init__(self) -> None:
        self._waiting: list[Planned] = []
        self._seen: int | None = None

    def put(self, record: Planned) -> None:
        """Have a record with a gate wait."""
        self._waiting.append(record)
        self._seen = None

    def take(self, watermark_ms: int | None) -> list[Planned]:
        """Return those whose gate a declared watermark has opened."""
        if watermark_ms is None or watermark_ms == self._seen:
            return []
        self._seen = watermark_ms
        opened = [one for one in self._waiting if (one.gate or 0) <= watermark_ms]
        self._waiting = [one for one in self._waiting if (one.gate or 0) > watermark_ms]
        return opened

    def rest(self) -> list[Planned]:
        """Return those that still wait, the earliest gate first, and keep none."""
        left, self._waiting = self._waiting, []
        return sorted(left, key=lambda one: one.gate or 0)


class Look:
    """Reads the chain in a thread of its own: a store that is away keeps that thread waiting, and no sender."""

    def __init__(self, progress: Callable[[], Progress], every_s: float = LOOK_S) -> None:
        self._progress, self._every_s = progress, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="look at the chain", daemon=True)
        self.seen = Progress()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            # What cannot be read now is read later; for good, the sender meets it when it waits for the chain itself.
            with suppress(Exception):
                self.seen = self._progress()
