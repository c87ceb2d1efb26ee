"""Time by the partition and source furthest behind: what a declaration pins of it, and who is not waited for (R6)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from effectively_once.ledger.records import Clock, Head, Offsets, Ranges

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


def watermark_ms(head: Head, clock: Clock, ranges: Ranges) -> int | None:
    """Return the watermark (ms since 1970) that goes with a clock; it never falls (R6).

    It is the least of what the partitions have shown that are not idle, and of how far the sources have come that were
    not released. One that has shown nothing yet holds it.

    Args:
        head: the chain so far.
        clock: of the epoch that is about to be declared.
        ranges: of that epoch: they name all partitions that there are.

    """
    before = head.tail[-1].watermark_ms if head.tail else None
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
