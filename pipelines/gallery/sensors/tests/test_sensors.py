"""Ten minutes of a device have its extremes and the double next to its exact average, whatever came in between."""

import json
from collections import Counter
from fractions import Fraction

import pytest

from effectively_once import KafkaRecord, Outputs, Trial, trial_session
from records import START_MS, lines
from sensors import pipeline

WINDOW_MS = pipeline.window_ms


@pytest.fixture(scope="module")
def published() -> Outputs:
    """All that 1,000 records come to, sent in five epochs, one every five seconds."""
    sent = [KafkaRecord(line, timestamp_ms=START_MS + 5_000 * n) for n, line in enumerate(lines(1000, seed=7))]
    found: Outputs = {"filtered": []}
    trial = Trial(pipeline, trial_session())
    for first in range(0, 1000, 200):
        for sink, rows in trial.epoch(sent[first : first + 200]).items():
            found.setdefault(sink, []).extend(rows)
        found["filtered"] += trial.filtered
    return found


def test_ten_minutes_of_a_device_have_its_extremes_and_its_average(published: Outputs) -> None:
    unused = {row["id"] for row in published["dead_letter"]}
    unused |= {json.loads(row["value"])["id"] for row in published["filtered"]}
    celsius: dict[tuple[str, str, int], list[float]] = {}
    for one in {one["id"]: one for one in map(json.loads, lines(1000, seed=7)) if one["id"] not in unused}.values():
        key = (one["site"], one["device"], one["event_time_ms"] // WINDOW_MS * WINDOW_MS)
        celsius.setdefault(key, []).append(one["celsius"])
    # 800 records are 66 minutes; ten minutes close ten minutes after their end.
    due = {
        key: (len(some), min(some), max(some), float(sum(map(Fraction, some)) / len(some)))
        for key, some in celsius.items()
        if key[2] < START_MS + 5 * WINDOW_MS
    }
    found = {
        (row["site"], row["device"], row["window_start_ms"]): (
            *(row[name] for name in ("readings", "coldest", "warmest", "mean")),
        )
        for row in published["per_ten_minutes"]
    }
    assert found == due


def test_each_reading_that_does_not_count_has_its_reason(published: Outputs) -> None:
    reasons = Counter(row["reason"] for row in published["dead_letter"])
    assert reasons.keys() == {"impossible_celsius", "missing_celsius", "ahead", "late"}
    assert {row["reason"] for row in published["filtered"]} == {"test_device"}
    assert not any(row["device"] == "test-1" for row in published["readings"])
