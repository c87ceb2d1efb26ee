"""What a driver's announcements and its output tell of a held watermark: epoch times, refused records, latencies."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tests.bench.errors import BenchError
from tests.bench.held_events import HeldEvents, Sent, sent_at
from tests.bench.s1_events import START_MS

WARM_UP = 2
"""Epochs at the beginning that are not measured: JVMs and workers start in them."""

Announced = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Published:
    """Epochs as they were first published.

    Attributes:
        at_ms: epoch -> when, ms since 1970.
        took_ms: time of each epoch after the warm-up.
        late: records that were refused as late.
        rows: epoch -> how many records it and all before it have read.

    """

    at_ms: Mapping[int, float]
    took_ms: Sequence[int]
    late: int
    rows: Mapping[int, int]

    @classmethod
    def of(cls, announced: Announced) -> Published:
        """Take them from what a driver announced. Raises BenchError: nothing is left after the warm-up."""
        epochs = [one for one in announced if one["event"] == "epoch" and one["state"] == "published"]
        if len(epochs) <= WARM_UP:
            raise BenchError(f"{len(epochs)} epochs, {WARM_UP} of them for the warm-up: measure more records")
        rows, read = {}, 0
        for one in epochs:
            read += one["in"]
            rows[one["epoch"]] = read
        return cls(
            {one["epoch"]: float(one["t"]) for one in reversed(epochs)},
            [one["ms"]["total"] for one in epochs[WARM_UP:]],
            sum(one["late"] for one in epochs),
            rows,
        )


def closing_epochs(values: Iterable[bytes]) -> dict[int, int]:
    """Return the epoch that published each window, by its start (ms since 1970), from the results of the pipeline."""
    found: dict[int, int] = {}
    for value in values:
        line = orjson.loads(value)
        start, epoch = line["window_start_ms"], line["epoch"]
        if found.setdefault(start, epoch) != epoch:
            raise BenchError(f"window {start} was published by epochs {found[start]} and {epoch}")
    return found


def require_held(events: HeldEvents, published: Published, closed: Mapping[int, int], epoch_rows: int) -> None:
    """Refuse a measurement in which windows were closed while the watermark was to be held: it would tell nothing.

    Raises:
        BenchError: naming the window; so if none was closed at all.

    """
    if not closed:
        raise BenchError("no window was closed: measure more records")
    start, epoch = min(closed.items())
    read, due = published.rows[epoch], events.first_behind(START_MS + events.hold_ms)
    # An epoch is planned before what it reads is known.
    if read < due - epoch_rows:
        raise BenchError(f"window {start} was closed after {read:,} records, and was to be held until {due:,}")


def latencies_s(
    events: HeldEvents, sent: Sequence[Sent], visible_ms: Mapping[int, float], window_ms: int
) -> dict[int, float]:
    """Return for each window the seconds from when the other partitions had sent all of it until it was visible."""
    return {
        start: (seen_ms - at_ms) / 1000
        for start, seen_ms in visible_ms.items()
        if (at_ms := sent_at(sent, events.first_behind(start + window_ms))) is not None
    }


def compare_latencies(by_rule: Mapping[str, Mapping[int, float]]) -> dict[str, list[float]]:
    """Return the latencies of the windows that all rules have closed, in order of window. Raises BenchError: none."""
    common = sorted(set.intersection(*(set(each) for each in by_rule.values())))
    if not common:
        raise BenchError("no window was closed by all rules: measure for longer")
    return {rule: [each[start] for start in common] for rule, each in by_rule.items()}


def middle_and_longest(samples: Sequence[float]) -> tuple[float, float]:
    """Return median and maximum."""
    return statistics.median(samples), max(samples)
