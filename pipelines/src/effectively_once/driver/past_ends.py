"""Where the input ended at moments of the past: by these a record that nobody has covered yet has an age.

Nothing is asked of the broker for it but once, at the start of a driver that is behind: it looks at the ends anyhow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from effectively_once.sources.retained import Partitions

LONGEST_S = 7 * 86_400.0
"""What a start looks back; what is older is told as this old, until the driver has run for longer."""
MOST = 512
"""Moments that are kept; of the older half every second one goes then, and what lay between is divided evenly."""


class PastEnds:
    """Moments of one topic, the oldest first; times are ms since 1970."""

    def __init__(self) -> None:
        self._moments: list[tuple[float, Partitions]] = []

    def note(self, now_ms: float, ends: Partitions) -> None:
        """Keep where the topic ends now."""
        # One that has just begun to lead may tell an earlier end; of the same topic it never sinks.
        last = self._moments[-1][1] if self._moments else {}
        self._moments.append((now_ms, {partition: max(end, last.get(partition, 0)) for partition, end in ends.items()}))
        if len(self._moments) > MOST:
            self._moments = [*self._moments[: MOST // 2 : 2], *self._moments[MOST // 2 :]]

    def look_back(self, at: Partitions, ask: Callable[[float], Partitions]) -> None:
        """Fill in the time before the first moment, back to when nothing was there that is unread now.

        Args:
            at: the first offset that nobody has covered, by partition.
            ask: given a time, the first offset of each partition that is not older. Raises what it raises.

        """
        now_ms, ends = self._moments[0]
        if all(at[partition] >= end for partition, end in ends.items()):
            return
        for back_s in _doubled(30.0):
            then = {
                partition: min(offset, ends[partition]) for partition, offset in ask(now_ms - back_s * 1000).items()
            }
            self._moments.insert(0, (now_ms - back_s * 1000, then))
            if all(then.get(partition, 0) <= offset for partition, offset in at.items()):
                return

    def find_age_s(self, partition: str, offset: int) -> float:
        """Return how old the record of an offset is at the last moment; 0: it is still to come.

        Between two moments records are taken to have come evenly. One that is older than the first moment is told as
        old as that.
        """
        ends = [at.get(partition, 0) for _, at in self._moments]
        after = bisect_right(ends, offset)
        now_ms = self._moments[-1][0]
        if after == len(ends):
            return 0.0
        then_ms = self._moments[after][0]
        if after:
            before_ms = self._moments[after - 1][0]
            share = (offset - ends[after - 1]) / (ends[after] - ends[after - 1])
            then_ms = before_ms + share * (then_ms - before_ms)
        return max(0.0, now_ms - then_ms) / 1000

    def forget(self, at: Partitions) -> None:
        """Drop the moments before the last one at which nothing was there that is unread now."""
        while len(self._moments) > 1 and all(end <= at.get(p, 0) for p, end in self._moments[1][1].items()):
            self._moments.pop(0)


def _doubled(first_s: float) -> Iterator[float]:
    while first_s < LONGEST_S:
        yield first_s
        first_s *= 2
    yield LONGEST_S
