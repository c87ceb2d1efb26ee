"""Time by the partition and source furthest behind: what a declaration pins of it, and who is not waited for (R6)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from effectively_once.ledger.clock import Clock
from effectively_once.ledger.head import Head
from effectively_once.ledger.offsets import Offsets, Ranges

Idle = dict[str, list[str]]
Name = TypeVar("Name", bound=Hashable)


class Silence:
    """Since when each of those that are waited for has been silent, as far as this driver has seen.

    Args:
        bound_ms: how long somebody may be silent.
        now_s: a clock that stands while nobody could be heard (`Attended.seconds`).

    """

    def __init__(self, bound_ms: int, now_s: Callable[[], float]) -> None:
        self._bound_s, self._now_s = bound_ms / 1000, now_s
        self._since_s: dict[Hashable, float] = {}

    def hear(self, moved: Mapping[Name, bool]) -> list[Name]:
        """Take note of who moved and who did not; return those that were silent for the bound.

        One that this driver sees for the first time has only begun to be silent: it may have lagged before.
        """
        now = self._now_s()
        silent = []
        for name, did in moved.items():
            since = self._since_s.setdefault(name, now)
            if did:
                self._since_s[name] = now
            elif now - since >= self._bound_s:
                silent.append(name)
        return silent


def without_backlog(silent: list[tuple[str, str]], ranges: Ranges, ends: Offsets) -> Idle:
    """Return those of the silent partitions that hold nothing which the chain has not covered.

    `ends` are the offsets that the next records will get, committed or not.

    What lies in a transaction that is still open is no silence.
    """
    idle: Idle = {}
    for topic, partition in silent:
        if ends.get(topic, {}).get(partition) == ranges[topic][partition][1]:
            idle.setdefault(topic, []).append(partition)
    return idle


def next_clock(
    head: Head, idle: Idle, sources: Mapping[str, int | None] | None = None, released: tuple[str, ...] = ()
) -> Clock:
    """Return the clock of the epoch after `head`: what those before have shown, and who is not waited for."""
    last = head.tail[-1] if head.tail else None
    return Clock(shown=last.shown_by_now if last else {}, idle=idle, sources=dict(sources or {}), released=released)


def force(head: Head, clock: Clock, ranges: Ranges) -> Clock:
    """Return the clock that goes on without those for whom the epochs before have held too much.

    What a shard holds is known to it alone, and recorded. So it takes effect an epoch later, and is pinned there. Who
    is left behind stays so until it has come to where time was forced to.
    """
    last = head.tail[-1] if head.tail else None
    times = () if last is None else (last.excess_ms, last.clock.forced_ms if last.clock else None)
    further = clock.model_copy(update={"forced_ms": max((time for time in times if time is not None), default=None)})
    return further if find_left_behind(further, ranges) else clock


def find_left_behind(clock: Clock, ranges: Ranges) -> list[str]:
    """Name the partitions (topic/partition) and sources for whom too much was held, so that time goes on without them.

    Args:
        clock: of an epoch.
        ranges: of that epoch: they name all partitions that there are.

    """
    if clock.forced_ms is None:
        return []
    times = {
        f"{topic}/{partition}": clock.shown.get(topic, {}).get(partition)
        for topic, partitions in ranges.items()
        for partition in partitions
        if partition not in clock.idle.get(topic, [])
    }
    times |= {name: time for name, time in clock.sources.items() if name not in clock.released}
    return [name for name, time in times.items() if time is None or time < clock.forced_ms]


def watermark_ms(head: Head, clock: Clock, ranges: Ranges) -> int | None:
    """Return the watermark (ms since 1970) that goes with a clock; it never falls (R6).

    It is the least of what the partitions have shown that are not idle, and of how far the sources have come that were
    not released. One that has shown nothing yet holds it. Nobody holds it before the time to which it is forced.

    Args:
        head: the chain so far.
        clock: of the epoch that is about to be declared.
        ranges: of that epoch: they name all partitions that there are.

    """
    last = head.tail[-1].watermark_ms if head.tail else None
    before = max((time for time in (last, clock.forced_ms) if time is not None), default=None)
    partitions = [
        clock.shown.get(topic, {}).get(partition)
        for topic, partitions in ranges.items()
        for partition in partitions
        if partition not in clock.idle.get(topic, [])
    ]
    # Where no partition shows anything, a source that is ahead of all records says nothing of when they are over.
    if not partitions:
        return before
    awaited = [*partitions, *(at for name, at in clock.sources.items() if name not in clock.released)]
    if None in awaited:
        return before
    return max(time for time in (before, min(time for time in awaited if time is not None)) if time is not None)
