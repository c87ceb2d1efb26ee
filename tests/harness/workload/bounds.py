"""Records at the bounds of time: 1 ms before, at and 1 ms after a window is closed, and copies as old as any may be.

A *bound* is the moment, in event time, at which a watermark closes a window for good. A *pin* is a record of exactly
the time that the next epoch's watermark is to have. The sender goes on when an epoch holds all it sent, so that the
watermark under which the records behind a pin are judged is known to the millisecond.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.harness.workload.record import Kind, Planned, copy_of, malformed_without, well_formed
from tests.harness.workload.seeded import Seeded
from tests.harness.workload.shape import Numbers

COPIES, SAMPLE = 40, 24
"""Copies at a bound, of all windows that are open; and records remembered of each window."""
OTHERS = 4
"""Of the copies, how many have the id of a record and another user."""
FRESH, LATE_OWN, LATE_COPIES, MALFORMED = 6, 2, 3, 1
AHEAD_MS = 3_600_000
"""How far ahead the time of a record is that is refused: a watermark that took it would close everything."""


@dataclass(frozen=True)
class Bounded:
    """A seeded stream with bounds in it, numbered anew; iterate it as often as wanted.

    Attributes:
        stream: the seeded stream.
        places: of the bounds, as fractions of its span, in ascending order.
    """

    stream: Seeded
    places: tuple[float, ...]

    @property
    def numbers(self) -> Numbers:
        """Exact numbers of the whole, without generating it."""
        own, bounds = self.stream.numbers, len(self.places)
        return Numbers(
            sent=own.sent + bounds * EXTRA,
            duplicates_sent=own.duplicates_sent + bounds * COPIES,
            late_sent=own.late_sent + bounds * (LATE_OWN + LATE_COPIES),
            malformed_sent=own.malformed_sent + bounds * MALFORMED,
        )

    @property
    def moments(self) -> list[int]:
        """Event times (ms) of the bounds: window end + allowed lateness, of windows that the stream fills."""
        shape = self.stream.shape
        window, lateness = shape.window_ms, shape.pace.lateness_ms
        ends = (
            max(-(-(shape.first_ms + int(place * shape.span_ms) - lateness) // window), shape.first_ms // window + 1)
            for place in self.places
        )
        return [end * window + lateness for end in ends]

    def __iter__(self) -> Iterator[Planned]:
        """Yield the records in sending order, closers not included."""
        for n, record in enumerate(self._records()):
            yield replace(record, n=n)

    def _records(self) -> Iterator[Planned]:
        moments, rng = self.moments, random.Random(f"bounds of {self.stream.seed}")
        memory = _Memory(self.stream.shape.window_ms, rng)
        for record in self.stream:
            while moments and record.moves_watermark and (record.event_time_ms or 0) >= moments[0]:
                yield from self._bound(moments.pop(0), memory)
            memory.take(record)
            yield record
        for moment in moments:
            yield from self._bound(moment, memory)

    def _bound(self, moment: int, memory: _Memory) -> Iterator[Planned]:
        """Everything at one bound."""
        shape = self.stream.shape
        end = moment - shape.pace.lateness_ms
        owner = memory.owner(end - shape.window_ms)

        def own(what: str, time_ms: int, *, kind: Kind = "fresh", settled: bool = False) -> Planned:
            return well_formed(0, f"bound-{moment}-{what}", owner, time_ms, what, kind=kind, settled=settled)

        yield own("pin, 1 ms before", moment - 1)
        yield malformed_without("user", 0, f"bound-{moment}-ahead", moment + AHEAD_MS)
        yield own("last ms of the window", end - 1, settled=True)
        yield own("first ms of the window", end - shape.window_ms)
        yield own("first ms of the next window", end)
        yield from memory.copies(end - shape.window_ms)
        yield own("pin", moment, settled=True)
        yield own("late by nothing", end - 1, kind="late", settled=True)
        yield from memory.late_copies(end - shape.window_ms)
        yield own("pin, 1 ms after", moment + 1, settled=True)
        yield own("late by 1 ms", end - 1, kind="late", settled=True)


EXTRA = FRESH + COPIES + LATE_OWN + LATE_COPIES + MALFORMED
"""Records at a bound."""


@dataclass
class _Memory:
    """Some accepted records of every window, drawn evenly from all of it."""

    window_ms: int
    rng: random.Random
    kept: dict[int, list[Planned]] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)

    def take(self, record: Planned) -> None:
        """Remember a record, perhaps."""
        if record.kind != "fresh" or record.event_time_ms is None:
            return
        start = record.event_time_ms - record.event_time_ms % self.window_ms
        kept, count = self.kept.setdefault(start, []), self.seen.get(start, 0) + 1
        self.seen[start] = count
        if len(kept) < SAMPLE:
            kept.append(record)
        elif (place := self.rng.randrange(count)) < SAMPLE:
            kept[place] = record

    def owner(self, start: int) -> str:
        """User of a record of a window."""
        return str(self._of(start)[0].user)

    def copies(self, start: int) -> Iterator[Planned]:
        """Copies of records of the windows from `start` on, each window in turn; some with another user."""
        windows = [self._of(one) for one in sorted(self.kept) if one >= start]
        for number in range(COPIES):
            window = windows[number % len(windows)]
            record = window[number // len(windows) % len(window)]
            if number < COPIES - OTHERS:
                yield copy_of(record, 0, "duplicate")
            else:
                assert record.id is not None
                assert record.event_time_ms is not None
                payload = "the id of another user's record"
                yield well_formed(0, record.id, f"{record.user}-2", record.event_time_ms, payload, kind="duplicate")

    def late_copies(self, start: int) -> Iterator[Planned]:
        """Copies of records of a window that is closed by now."""
        for record in (self._of(start) * LATE_COPIES)[:LATE_COPIES]:
            yield copy_of(record, 0, "late")

    def _of(self, start: int) -> list[Planned]:
        """Records of a window; of one that had none, those of the nearest before it."""
        return self.kept[max((one for one in self.kept if one <= start), default=min(self.kept))]
