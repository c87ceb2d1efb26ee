"""Events of which one partition is behind the others: its producer's clock stands still, or is late."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tests.bench.s1_events import PARTITIONS, START_MS, Events, Whole

SLOW = 0
"""The partition that is behind."""
_NOTE_EVERY = 50


@dataclass(frozen=True)
class HeldEvents(Events):
    """Events of S1 without copies, of which partition 0 is behind. It sends as much as the others, so it is never idle.

    Attributes:
        hold_ms: for so long, in event time of the others, its clock stands still; then it has come up.
        lag_ms: by so much it is behind from the beginning to the end.

    """

    duplicates: float = 0.0
    hold_ms: int = 0
    lag_ms: int = 0

    def __post_init__(self) -> None:
        """Refuse copies: one that another partition gets would tell the time of the first. Raises ValueError."""
        if self.duplicates:
            raise ValueError("events that are held have no copies")

    def columns(self) -> tuple[Whole, Whole, Whole]:
        """As `Events.columns`."""
        originals, ranks, times = super().columns()
        slow = np.arange(self.records) % PARTITIONS == SLOW
        behind = np.maximum(times - self.lag_ms, START_MS)
        behind[: self.first_behind(START_MS + self.hold_ms)] = START_MS
        return originals, ranks, np.where(slow, behind, times)

    def first_behind(self, time_ms: int) -> int:
        """Return how many records are sent before all those of the other partitions are of this event time (ms)."""
        return min(self.records, max(0, -((START_MS - time_ms) * self.records // self.span_ms)))


@dataclass(frozen=True, slots=True)
class Sent:
    """How many records were sent until a moment (ms since 1970)."""

    t_ms: float
    rows: int


def paced(
    values: Iterable[bytes],
    per_s: int,
    sent: list[Sent],
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[bytes]:
    """Yield values at a pace, and note in `sent` how far it has come. Who is slow to take them is not made up for."""
    began = clock()
    for number, value in enumerate(values):
        if number % _NOTE_EVERY == 0:
            ahead_s = began + number / per_s - clock()
            if ahead_s > 0:
                sleep(ahead_s)
            sent.append(Sent(clock() * 1000, number))
        yield value


def sent_at(sent: Sequence[Sent], rows: int) -> float | None:
    """Return when so many records were sent, in ms since 1970; None where they were not."""
    return next((one.t_ms for one in sent if one.rows >= rows), None)
