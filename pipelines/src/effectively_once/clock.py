"""Time by the partition that is furthest behind: what a declaration pins of it, and which partitions are idle (R6)."""

from __future__ import annotations

import time
from collections.abc import Callable

from effectively_once.ledger.records import Clock, Head, Ranges

Idle = dict[str, list[str]]
Ends = dict[str, dict[str, int]]
"""Topic -> partition -> offset that the next record will get, committed or not."""


class Silence:
    """Since when each partition has been silent, as far as this driver has seen."""

    def __init__(self, idle_ms: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._idle_s, self._now_s = idle_ms / 1000, now_s
        self._since_s: dict[tuple[str, str], float] = {}

    def hear(self, ranges: Ranges) -> Idle:
        """Take note of what the next epoch reads; return the partitions that were silent for `idle_ms`.

        One that this driver sees for the first time has only begun to be silent: it may have lagged before.
        """
        now = self._now_s()
        silent: Idle = {}
        for topic, partitions in ranges.items():
            for partition, (start, end) in partitions.items():
                since = self._since_s.setdefault((topic, partition), now)
                if end > start:
                    self._since_s[topic, partition] = now
                elif now - since >= self._idle_s:
                    silent.setdefault(topic, []).append(partition)
        return silent


def without_backlog(silent: Idle, ranges: Ranges, ends: Ends) -> Idle:
    """Return those of the silent partitions that hold nothing which the chain has not covered.

    What lies in a transaction that is still open is no silence.
    """
    idle = {
        topic: [name for name in names if ends.get(topic, {}).get(name) == ranges[topic][name][1]]
        for topic, names in silent.items()
    }
    return {topic: names for topic, names in idle.items() if names}


def next_clock(head: Head, idle: Idle) -> Clock:
    """Return the clock of the epoch that follows `head`: what the epochs before have shown, and who is idle now."""
    last = head.tail[-1] if head.tail else None
    if last is None:
        return Clock(idle=idle)
    return (last.clock or Clock()).after(last.shown_ms, idle)


def watermark_ms(head: Head, clock: Clock, ranges: Ranges) -> int | None:
    """Return the watermark (ms since 1970) that goes with a clock; it never falls (R6).

    It is the least of what the partitions have shown that are not idle. One that has shown nothing yet holds it.

    Args:
        head: the chain so far.
        clock: of the epoch that is about to be declared.
        ranges: of that epoch: they name all partitions that there are.

    """
    before = head.tail[-1].watermark_ms if head.tail else None
    awaited = [
        clock.shown.get(topic, {}).get(partition)
        for topic, partitions in ranges.items()
        for partition in partitions
        if partition not in clock.idle.get(topic, [])
    ]
    if not awaited or None in awaited:
        return before
    return max(time for time in (before, min(time for time in awaited if time is not None)) if time is not None)
