"""Records as a new pipeline reads them: strictly, so that no two readers take one record for two, or two for one."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from effectively_once import json_records
from effectively_once.epoch.rows import KAFKA
from effectively_once.errors import SettingsError
from tests.fuzz.reading import read
from tests.fuzz.typed import typed_records

pytestmark = pytest.mark.spark

FIELDS = "id string, event_time_ms long, n int, level double, on boolean"
READ: dict[str, tuple[str | None, tuple[Any, ...]]] = {
    '{"id":"a","event_time_ms":5,"n":7,"level":0.5,"on":true}': (None, ("a", 5, 7, 0.5, True)),
    ' {"on":false, "level":3, "other":{"x":[1]}, "id":"1"}\n': (None, ("1", None, None, 3.0, False)),
    '{"id":"","n":null}': (None, ("", None, None, None, None)),
    '{"id":"a\\u0000\\ud83d\\ude00","level":1e999}': (None, ("a\0\U0001f600", None, None, float("inf"), None)),
    '{"id":1}': ("bad_id", (None,) * 5),
    '{"id":true}': ("bad_id", (None,) * 5),
    '{"id":{"a":1}}': ("bad_id", (None,) * 5),
    '{"id":"a","event_time_ms":"5"}': ("bad_time", ("a", None, None, None, None)),
    '{"id":"a","event_time_ms":9223372036854775808}': ("bad_time", ("a", None, None, None, None)),
    '{"id":"a","n":5.0}': ("bad_n", ("a", None, None, None, None)),
    '{"id":"a","n":2147483648}': ("bad_n", ("a", None, None, None, None)),
    '{"id":"a","level":"0.5"}': ("bad_level", ("a", None, None, None, None)),
    '{"id":"a","on":"true"}': ("bad_on", ("a", None, None, None, None)),
    '{"id":1,"n":"x"}': ("bad_id", (None,) * 5),
    '{"id":"a","id":"a"}': ("duplicate_key", (None,) * 5),
    '{"id":"a","i\\u0064":"b"}': ("duplicate_key", (None,) * 5),
    '{"id":"a","other":{"k":1,"k":2}}': ("malformed", (None,) * 5),
    "{'id':'a'}": ("malformed", (None,) * 5),
    '{"id":"a","level":NaN}': ("malformed", (None,) * 5),
    '[{"id":"a"}]': ("malformed", (None,) * 5),
    '"a"': ("malformed", (None,) * 5),
    "": ("malformed", (None,) * 5),
    "null": ("malformed", (None,) * 5),
}
HALF = ['{"id":"a"}{"id":"b"}', '{"id":"a"} x', '{"id":"a\\ud800"}', b'{"id":"\xff"}', None]
"""What has a beginning that could be read: its fields do not count, only the reason."""

TYPED_FIELDS = "amount decimal(5,2), day date, at timestamp"
MOMENT = 1_795_791_845_678_000
"""2026-11-27T15:04:05.678Z, in microseconds since 1970."""
TYPED: dict[str, tuple[str | None, tuple[Any, ...]]] = {
    '{"amount":1.5,"day":"2026-11-27","at":"2026-11-27T15:04:05.678Z"}': (
        None,
        (Decimal("1.5"), date(2026, 11, 27), MOMENT),
    ),
    '{"amount":999.99,"day":null}': (None, (Decimal("999.99"), None, None)),
    '{"amount":-7}': (None, (Decimal(-7), None, None)),
    '{"amount":1.5000}': (None, (Decimal("1.5"), None, None)),
    '{"amount":100.0}': (None, (Decimal(100), None, None)),
    '{"amount":1.505}': ("bad_amount", (None,) * 3),
    '{"amount":0.001}': ("bad_amount", (None,) * 3),
    '{"amount":1000}': ("bad_amount", (None,) * 3),
    '{"amount":9999999999999999999999999999999999999999}': ("bad_amount", (None,) * 3),
    '{"amount":1e2}': ("bad_amount", (None,) * 3),
    '{"amount":1.500000000000000000000000000000000000000}': ("bad_amount", (None,) * 3),
    '{"amount":"1.50"}': ("bad_amount", (None,) * 3),
    '{"amount":true}': ("bad_amount", (None,) * 3),
    '{"day":"2024-02-29"}': (None, (None, date(2024, 2, 29), None)),
    '{"day":"0001-01-01"}': (None, (None, date(1, 1, 1), None)),
    '{"day":"2026-02-29"}': ("bad_day", (None,) * 3),
    '{"day":"0000-01-01"}': ("bad_day", (None,) * 3),
    '{"day":"10000-01-01"}': ("bad_day", (None,) * 3),
    '{"day":"2026-1-1"}': ("bad_day", (None,) * 3),
    '{"day":" 2026-01-01"}': ("bad_day", (None,) * 3),
    '{"day":"2026-01-01\\n"}': ("bad_day", (None,) * 3),
    '{"day":"2026-01-01T00:00:00Z"}': ("bad_day", (None,) * 3),
    '{"day":20260101}': ("bad_day", (None,) * 3),
    '{"at":"2026-11-27T16:04:05.678000000+01:00"}': (None, (None, None, MOMENT)),
    '{"at":"2026-11-26T21:04:05.678-18:00"}': (None, (None, None, MOMENT)),
    '{"at":"1969-12-31T23:59:59.999999Z"}': (None, (None, None, -1)),
    '{"at":"2026-11-27T15:04:05.6789991Z"}': ("bad_at", (None,) * 3),
    '{"at":"2026-11-27T15:04:05"}': ("bad_at", (None,) * 3),
    '{"at":"2026-11-27T15:04Z"}': ("bad_at", (None,) * 3),
    '{"at":"2026-11-27 15:04:05Z"}': ("bad_at", (None,) * 3),
    '{"at":"2026-11-27T15:04:05 Europe/Berlin"}': ("bad_at", (None,) * 3),
    '{"at":"2026-11-27T15:04:60Z"}': ("bad_at", (None,) * 3),
    '{"at":"2026-11-27T24:00:00Z"}': ("bad_at", (None,) * 3),
    '{"at":"2026-11-27T15:04:05+18:01"}': ("bad_at", (None,) * 3),
    '{"at":"2026-11-27T15:04:05Z\\n"}': ("bad_at", (None,) * 3),
    '{"at":1795791845678}': ("bad_at", (None,) * 3),
}
"""Decimals, days and moments, these as microseconds: exactly as they are written, or refused."""


def read_typed(spark: SparkSession, values: list[str]) -> list[tuple[str | None, tuple[Any, ...]]]:
    sent = [(None, value.encode(), "t", 0, n, None, 0) for n, value in enumerate(values)]
    rows = json_records(spark.createDataFrame(sent, KAFKA), TYPED_FIELDS)
    found = rows.selectExpr("offset", "reason", "amount", "day", "unix_micros(at) AS at").collect()
    return [(row.reason, (row.amount, row.day, row.at)) for row in sorted(found, key=lambda row: row.offset)]


def test_decimals_days_and_moments_are_read_exactly_or_refused(spark: SparkSession) -> None:
    assert dict(zip(TYPED, read_typed(spark, [*TYPED]), strict=True)) == TYPED


@settings(max_examples=5, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(typed_records(), min_size=100, max_size=300))
def test_they_are_what_plain_python_makes_of_them(spark: SparkSession, values: list[str]) -> None:
    fields = dict(field.split() for field in TYPED_FIELDS.split(", "))
    expected = [(reason, tuple(row.values())) for reason, row in (read(value.encode(), fields) for value in values)]
    assert read_typed(spark, values) == expected


def test_a_time_that_is_none_is_bad_time(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(None, b'{"event_time":"yesterday"}', "t", 0, 0, None, 0)], KAFKA)
    assert [row.reason for row in json_records(frame, "event_time timestamp").collect()] == ["bad_time"]


def test_a_record_is_read_in_one_way_or_refused(spark: SparkSession) -> None:
    values = [*(text.encode() for text in READ), *(one.encode() if isinstance(one, str) else one for one in HALF)]
    frame = spark.createDataFrame([(None, value, "t", 0, n, None, 0) for n, value in enumerate(values)], KAFKA)
    rows = sorted(json_records(frame, FIELDS).collect(), key=lambda row: row.offset)
    found = {text: (row.reason, tuple(row)[5:-1]) for text, row in zip(READ, rows[: len(READ)], strict=True)}
    assert found == READ
    assert [row.reason for row in rows[len(READ) :]] == ["malformed"] * len(HALF)
    assert rows[0].value == values[0]


def test_a_field_of_a_type_that_it_cannot_read_is_refused_by_its_name(spark: SparkSession) -> None:
    with pytest.raises(SettingsError, match="field raw is binary; possible are string"):
        json_records(spark.createDataFrame([], KAFKA), "id string, raw binary")
