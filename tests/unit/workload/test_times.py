"""Event times as people write them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.workload.times import Milliseconds, parse_time

AT = 1_700_000_000_123  # 2023-11-14T22:13:20.123Z


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (1_700_000_000, AT - 123),
        ("1700000000", AT - 123),
        (AT, AT),
        (str(AT), AT),
        (AT * 1_000 + 999, AT),
        (AT * 1_000_000 + 999_999, AT),
        (1_700_000_000.123, AT),
        ("1700000000.123", AT),
        (Decimal("1700000000.1239"), AT),
        (float(AT), AT),
        ("1.7e9", AT - 123),
        (0, 0),
        (5, 5_000),
        (99_999_999_999, 99_999_999_999_000),
        (100_000_000_000, 100_000_000_000),
        (Milliseconds(5), 5),
        ("2023-11-14T22:13:20.123Z", AT),
        ("2023-11-14T22:13:20.123", AT),
        (" 2023-11-14 22:13:20.123 ", AT),
        ("2023-11-14T22:13:20.123456789+00:00", AT),
        ("2023-11-15T03:43:20.123+05:30", AT),
        ("2023-11-14", 1_699_920_000_000),
        (date(2023, 11, 14), 1_699_920_000_000),
        (datetime(2023, 11, 14, 22, 13, 20, 123_999), AT),
        (datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC), AT),
    ],
)
def test_times_are_read(raw: object, expected: int) -> None:
    assert parse_time(raw) == expected


@pytest.mark.parametrize(
    "raw",
    [
        None,
        "",
        "  ",
        "yesterday",
        "2023-13-01",
        "23:59",
        True,
        False,
        -1,
        "-1",
        -0.001,
        float("nan"),
        float("inf"),
        "NaN",
        "1_000.5",
        "1e999999999",
        10**30,
        "9" * 30,
        "9" * 5_000,
        "1969-12-31T23:59:59Z",
        Milliseconds(-1),
        Milliseconds(10**15),
        [],
        {},
        b"1",
        "0001-01-01T00:00:00+23:00",
        "9999-12-31T23:59:59-23:00",
        "٣",
    ],
)
def test_anything_else_is_no_time(raw: object) -> None:
    assert parse_time(raw) is None


@given(st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)))
def test_iso_text_and_milliseconds_agree(moment: datetime) -> None:
    moment = moment.replace(tzinfo=UTC)
    expected = int(moment.timestamp()) * 1_000 + moment.microsecond // 1_000
    assert parse_time(moment.isoformat()) == parse_time(moment.isoformat(" ")) == parse_time(moment) == expected
