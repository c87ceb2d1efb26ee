"""Records as a new pipeline reads them: strictly, so that no two readers take one record for two, or two for one."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from effectively_once import json_records
from effectively_once.epoch.rows import KAFKA
from effectively_once.errors import SettingsError

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


def test_a_record_is_read_in_one_way_or_refused(spark: SparkSession) -> None:
    values = [*(text.encode() for text in READ), *(one.encode() if isinstance(one, str) else one for one in HALF)]
    frame = spark.createDataFrame([(None, value, "t", 0, n, None, 0) for n, value in enumerate(values)], KAFKA)
    rows = sorted(json_records(frame, FIELDS).collect(), key=lambda row: row.offset)
    found = {text: (row.reason, tuple(row)[5:-1]) for text, row in zip(READ, rows[: len(READ)], strict=True)}
    assert found == READ
    assert [row.reason for row in rows[len(READ) :]] == ["malformed"] * len(HALF)
    assert rows[0].value == values[0]


def test_a_field_of_a_type_that_it_cannot_read_is_refused_by_its_name(spark: SparkSession) -> None:
    with pytest.raises(SettingsError, match="field day is date; possible are string"):
        json_records(spark.createDataFrame([], KAFKA), "id string, day date")
