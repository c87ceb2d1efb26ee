"""Words of gateways beside what the broker acknowledged: who writes words down does not write acknowledgements.

A word names the end of each partition as it was when it was said. So what lies before these ends had been acknowledged
by then, and what lies behind them had not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from tests.harness.checkers.clock import span_of_run
from tests.harness.checkers.statements import Said
from tests.harness.sends import Send

WITHIN_MS = 5_000
"""A word is written down, and an acknowledgement dated, by threads that a busy machine may keep waiting between."""


class _Partition(NamedTuple):
    """Offsets in their order; the last acknowledgement up to each, and the first one from each on."""

    offsets: list[int]
    last: list[int]
    first: list[int]


def strangers(said: Iterable[Said], gateways: Sequence[str]) -> list[str]:
    """Describe words of who is not registered."""
    return [
        f"{one.source} said at {one.said_at} how far it is, registered are {sorted(gateways)}"
        for one in said
        if one.source not in gateways
    ]


def out_of_the_run(said: Iterable[Said], events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe words that were said while there was no run, or that the broker had before, or when it was over."""
    began, ended = span_of_run(events)
    moments = ((one, one.said_at if one.delivered_at is None else one.delivered_at) for one in said)
    return [
        f"{one.source} said at {one.said_at} how far it is, and the broker had it at {had}: when there was no run, or "
        "before it was said"
        for one, had in moments
        if not began <= one.said_at <= had <= ended
    ]


def find_taken_back(said: Iterable[Said]) -> list[str]:
    """Describe words that take back what the same gateway had said before."""
    before: dict[str, Said] = {}
    found: list[str] = []
    for one in said:
        last = before.setdefault(one.source, one)
        ends = (one.offsets.get(partition, 0) < end for partition, end in last.offsets.items())
        if one.time_ms < last.time_ms or any(ends):
            found.append(f"{one.source} took back at {one.said_at} what it had said at {last.said_at}")
        before[one.source] = one
    return found


def find_mistimed(said: Iterable[Said], sends: Sequence[Send], acked_at: Sequence[int]) -> list[str]:
    """Describe words whose ends are not those that acknowledgements made of partitions when they were said."""
    partitions = _partitions(sends, acked_at)
    return [why for one in said for why in _compare_times(one, partitions)]


def _compare_times(one: Said, partitions: dict[int, _Partition]) -> Iterator[str]:
    for number in sorted({*partitions, *one.offsets}):
        offsets, last, first = partitions.get(number, _Partition([], [], []))
        end = one.offsets.get(number, 0)
        at = bisect_left(offsets, end)
        says = f"{one.source} said at {one.said_at} that partition {number} ends at {end}"
        if not 0 <= end <= (offsets[-1] + 1 if offsets else 0):
            yield f"{says}, and no such record was acknowledged"
        elif at and last[at - 1] > one.said_at + WITHIN_MS:
            yield f"{says}, and a record before it was acknowledged at {last[at - 1]}"
        elif at < len(offsets) and first[at] < one.said_at - WITHIN_MS:
            yield f"{says}, and a record behind it had been acknowledged at {first[at]}"


def _partitions(sends: Sequence[Send], acked_at: Sequence[int]) -> dict[int, _Partition]:
    places: dict[int, list[tuple[int, int]]] = {}
    for send, at in zip(sends, acked_at, strict=True):
        places.setdefault(send.partition, []).append((send.offset, at))
    found = {}
    for number, records in places.items():
        offsets, times = map(list, zip(*sorted(records), strict=True))
        found[number] = _Partition(offsets, [*accumulate(times, max)], [*accumulate(reversed(times), min)][::-1])
    return found
