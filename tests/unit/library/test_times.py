"""An input topic bounds the times of records, so that no record is there which Spark's source cannot read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from effectively_once.sources.times import AFTER, AHEAD_MAX_MS, BEFORE, BOUNDS, takes_any_time

MAX = str(2**63 - 1)


@pytest.mark.parametrize(
    ("settings", "any_time"),
    [
        (BOUNDS, False),
        ({BEFORE: MAX, AFTER: "3600000"}, True),
        ({**BOUNDS, AFTER: MAX}, True),
        ({}, True),
        ({BEFORE: MAX, AFTER: MAX, "message.timestamp.type": "LogAppendTime"}, False),
    ],
    ids=["as create makes it", "a broker's default", "of an older broker", "a broker that knows no bounds", "its own"],
)
def test_a_topic_that_takes_any_time_is_told(settings: dict[str, str], any_time: bool) -> None:
    assert takes_any_time(settings) == any_time


def test_what_is_within_the_bounds_is_a_date_and_fits_microseconds() -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    for time_ms in (now_ms - int(BOUNDS[BEFORE]), now_ms + AHEAD_MAX_MS):
        assert abs(time_ms) * 1000 < 2**63
        assert 1 <= 1970 + time_ms / 31_556_952_000 < 9999
