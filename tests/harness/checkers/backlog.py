"""The backlog over time: records that were sent and lie in no published epoch yet, from sent.jsonl, chain and history.

A record waits from its `sent_at`, when it was handed to the producer, to the first publication of the epoch that read
it. The acknowledgement comes some moments later and is not recorded, so a wait is never told too short.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from tests.harness.checkers.reference import NEVER
from tests.harness.results import Waits, WaitsIn

_USUAL = 5
_MINUTE_MS = 60_000


class Backlog:
    """How many records wait, at any moment.

    Args:
        sent_at: when each record was sent, in ms since 1970.
        epochs_of: per record, the epoch that read it, or NEVER.
        published_at: epoch -> when it was first published.
        until: the end of what is looked at, in ms since 1970.

    Raises:
        ValueError: `sent_at` and `epochs_of` have different lengths.

    """

    def __init__(
        self, sent_at: Sequence[int], epochs_of: Sequence[int], published_at: Mapping[int, int], until: int
    ) -> None:
        self._sent = array("q", sorted(sent_at))
        ends = [(published_at.get(epoch), at) for at, epoch in zip(sent_at, epochs_of, strict=True) if epoch != NEVER]
        done = sorted((end, at) for end, at in ends if end is not None)
        self._published = array("q", (end for end, _ in done))
        self._waits = array("q", (end - at for end, at in done))
        self.publications = sorted({at for at in published_at.values() if at <= until})
        self.until = until

    def waits(self) -> Waits | None:
        """Return how long records waited for their publication; None where none was published."""
        return Waits(n=len(self._waits), **_shares(self._waits)) if self._waits else None

    def waits_by_minute(self) -> tuple[WaitsIn, ...]:
        """Return the same for the records of each minute in which some were published."""
        minutes = groupby(range(len(self._waits)), lambda n: (self._published[n] - self._published[0]) // _MINUTE_MS)
        found = [(minute, [self._waits[n] for n in own]) for minute, own in minutes]
        return tuple(WaitsIn(minute=minute, n=len(own), **_shares(own)) for minute, own in found)

    def at(self, time_ms: int) -> int:
        """Return the records sent up to a moment and not published up to it."""
        return bisect_right(self._sent, time_ms) - bisect_right(self._published, time_ms)

    def usual_at(self, time_ms: int) -> int | None:
        """Return the most records that one of the last five publications before a moment left behind; None of none.

        Like is compared with like: a backlog grows between publications, so only what they leave tells of falling
        behind.
        """
        before = self.publications[: bisect_left(self.publications, time_ms)]
        return max((self.at(at) for at in before[-_USUAL:]), default=None)

    def caught_up_at(self, from_ms: int, backlog: int) -> int | None:
        """Return the first publication from a moment on that leaves at most so many records; None when none does."""
        later = self.publications[bisect_left(self.publications, from_ms) :]
        return next((at for at in later if self.at(at) <= backlog), None)

    def longest_gap_s(self) -> float | None:
        """Return the longest time without a publication while records waited; None without a publication.

        It begins with a publication that leaves records behind, else with the first record after it; it ends with the
        next publication, or with the end of what is looked at.
        """
        if not self.publications:
            return None
        gaps = [after - self._waiting_from(before) for before, after in pairwise((*self.publications, self.until))]
        return max(0, *gaps) / 1000

    def _waiting_from(self, time_ms: int) -> int:
        if self.at(time_ms) > 0:
            return time_ms
        following = bisect_right(self._sent, time_ms)
        return self._sent[following] if following < len(self._sent) else self.until


def _shares(waits: Iterable[int]) -> dict[str, float]:
    """Return percentiles of some waits, given in ms, in s."""
    ordered = sorted(waits)
    return {
        name: ordered[max(0, math.ceil(part * len(ordered)) - 1)] / 1000
        for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
    }


def first_publications(events: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """Return epoch -> when it was first published; a repeat publishes no record a second time."""
    first: dict[int, int] = {}
    for event in events:
        epoch = event.get("epoch")
        if event["event"] == "epoch" and event.get("state") == "published" and type(epoch) is int:
            first[epoch] = min(event["t"], first.get(epoch, event["t"]))
    return first


def end_of_workload(events: Sequence[Mapping[str, Any]]) -> int:
    """Return when the epilogue began, which waits by itself; of a run without one, its last event; 0 of none."""
    begun = (event["t"] for event in events if event["event"] == "phase" and event.get("phase") == "epilogue")
    return next(begun, max((event["t"] for event in events), default=0))
