"""Rates and lag over time, computed from cumulative counts."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.harness.report.epochs import Attempt, first_publications
from tests.harness.report.lenient import real

Sample = tuple[float, float]


@dataclass(frozen=True)
class Rate:
    """A mean rate in records a second between two moments (milliseconds since 1970)."""

    begin: float
    end: float
    per_second: float


@dataclass(frozen=True)
class Flow:
    """Records sent and published, both cumulative, as (milliseconds since 1970, records)."""

    sent: list[Sample]
    published: list[Sample]


def flow(history: Sequence[dict[str, Any]], attempts: Sequence[Attempt]) -> Flow:
    """Collect what the sender got acknowledged and what epochs published; both start with a sample of 0 records."""
    sent: list[Sample] = []
    highest = 0.0
    for event in history:
        acknowledged = real(event.get("acknowledged"))
        if event.get("event") == "sent" and acknowledged is not None:
            highest = max(highest, acknowledged)
            sent.append((float(event["t"]), highest))
    if sent and sent[0][1] > 0:
        # The first sample counts what was sent before it: as long, it is assumed, as between the first two samples.
        gap = sent[1][0] - sent[0][0] if len(sent) > 1 else 1000.0
        sent.insert(0, (max(float(history[0]["t"]), sent[0][0] - gap), 0.0))
    published: list[Sample] = []
    total = 0.0
    for attempt in first_publications(attempts):
        if not published:
            published.append((attempt.declared_at, 0.0))
        total += attempt.counts["in"] or 0
        published.append((attempt.ended_at, total))
    return Flow(sent, published)


def rates(samples: Sequence[Sample], at_least_ms: float) -> list[Rate]:
    """Turn cumulative samples into mean rates over stretches of `at_least_ms`, without losing a record."""
    found: list[Rate] = []
    if not samples:
        return found
    begin, before = samples[0]
    for time, value in samples[1:]:
        if time - begin >= max(at_least_ms, 1.0):
            found.append(Rate(begin, time, (value - before) * 1000 / (time - begin)))
            begin, before = time, value
    time, value = samples[-1]
    if value > before:
        rest = value - before
        if found:
            previous = found.pop()
            rest += previous.per_second * (previous.end - previous.begin) / 1000
            begin = previous.begin
        found.append(Rate(begin, time, rest * 1000 / max(time - begin, 1.0)))
    return found


def lag(of: Flow) -> list[Sample]:
    """Return how many records were sent but not yet published: falls at a publication, rises in between."""
    points: list[tuple[float, int, float]] = [(time, 0, value_at(of.sent, time)) for time, _ in of.sent]
    points = [(time, order, sent - last_at(of.published, time)) for time, order, sent in points]
    for (_, before), (time, after) in zip(of.published, of.published[1:], strict=False):
        sent = value_at(of.sent, time)
        points.append((time, 1, sent - before))
        points.append((time, 2, sent - after))
    return [(time, max(0.0, value)) for time, _, value in sorted(points, key=lambda point: point[:2])]


def value_at(samples: Sequence[Sample], time: float) -> float:
    """Interpolate a cumulative count between its samples."""
    after = bisect_right(samples, time, key=lambda sample: sample[0])
    if after == 0:
        return 0.0
    if after == len(samples):
        return samples[-1][1]
    (t0, v0), (t1, v1) = samples[after - 1], samples[after]
    return v0 + (v1 - v0) * (time - t0) / (t1 - t0)


def last_at(samples: Sequence[Sample], time: float) -> float:
    """Return a cumulative count that changes in steps, just before a moment."""
    after = bisect_right(samples, time, key=lambda sample: sample[0])
    while after > 0 and samples[after - 1][0] >= time:
        after -= 1
    return samples[after - 1][1] if after else 0.0
