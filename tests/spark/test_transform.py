"""The pure part of user_counts: which records are refused, for which reason, and when a record is late."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from effectively_once.epoch import rows
from effectively_once.state.lateness import Windows
from effectively_once_jobs.user_counts import pipeline

pytestmark = [pytest.mark.spark, pytest.mark.core]

TIME_MS = 1_750_000_000_000
KAFKA = "topic string, partition int, offset long, value binary"


def judged(
    spark: SparkSession, values: list[bytes | None], watermark_ms: int | None = None, windows: Windows | None = None
) -> list[Row]:
    """Run the transform and the library's part after it over values, returned in their order."""
    windows = windows or Windows(60_000, 120_000)
    frame = spark.createDataFrame([("t", 0, n, value) for n, value in enumerate(values)], KAFKA)
    timely = rows.timely(pipeline, rows.judge(pipeline, frame), windows, watermark_ms)
    return sorted(timely.collect(), key=lambda row: row.offset)


def record(**changes: Any) -> bytes:
    """Encode a well-formed record with changes; a field set to `...` is left out."""
    whole = {"id": "i", "user": "u", "event_time_ms": TIME_MS, "payload": "p", "crc": 7, **changes}
    return json.dumps({name: value for name, value in whole.items() if value is not ...}).encode()


REFUSED: list[tuple[str, bytes | None, str]] = [
    ("null value", None, "not_json"),
    ("no bytes", b"", "not_json"),
    ("blank", b"   ", "not_json"),
    ("text", b"hello", "not_json"),
    ("cut off", record()[:-3], "not_json"),
    ("JSON null", b"null", "not_json"),
    ("JSON number", b"17", "not_json"),
    ("JSON string", b'"text"', "not_json"),
    ("JSON true", b"true", "not_json"),
    ("empty array", b"[]", "not_json"),
    ("array of a record", b"[" + record() + b"]", "not_json"),
    ("array of two", b"[" + record() + b"," + record() + b"]", "not_json"),
    ("two records in one", record() + record(id="j"), "not_json"),
    ("rubbish behind", record() + b" and more", "not_json"),
    ("a bracket behind", record() + b"]", "not_json"),
    ("a brace behind", record() + b"}", "not_json"),
    ("brackets and a record behind", record() + b"],[" + record(), "not_json"),
    ("a field behind", record() + b',"x":1', "not_json"),
    ("single quotes", b"{'id':'i','user':'u','event_time_ms':1}", "not_json"),
    ("high surrogate alone", record(id="a\ud800"), "not_json"),
    ("low surrogate alone", record(id="\udc00b"), "not_json"),
    ("surrogates the wrong way round", record(payload="\udc00\ud800"), "not_json"),
    ("not UTF-8", b"\xff\xfe\x00\x01", "not_json"),
    ("not UTF-8 in the id", record(id="ID").replace(b"ID", b"a\xffb"), "not_json"),
    ("not UTF-8 in the payload", record(payload="PP").replace(b"PP", b"\xc3\x28"), "not_json"),
    ("empty object", b"{}", "missing_id"),
    ("no id", record(id=...), "missing_id"),
    ("null id", record(id=None), "missing_id"),
    ("empty id", record(id=""), "missing_id"),
    ("no user", record(user=...), "missing_user"),
    ("null user", record(user=None), "missing_user"),
    ("empty user", record(user=""), "missing_user"),
    ("no time", record(event_time_ms=...), "bad_time"),
    ("null time", record(event_time_ms=None), "bad_time"),
    ("time in words", record(event_time_ms="soon"), "bad_time"),
    ("ISO time", record(event_time_ms="2026-01-01T00:00:00Z"), "bad_time"),
    ("negative time", record(event_time_ms=-1), "bad_time"),
    ("fraction of a ms", record(event_time_ms=1.5), "bad_time"),
    ("16 digits", record(event_time_ms=10**15), "bad_time"),
    ("beyond 64 bits", record(event_time_ms=10**40), "bad_time"),
    ("exponent", record().replace(str(TIME_MS).encode(), b"1e12"), "bad_time"),
    ("time is an object", record(event_time_ms={"ms": 1}), "bad_time"),
    ("time is a truth value", record(event_time_ms=True), "bad_time"),
    # Several faults: the first of not_json, missing_id, missing_user, bad_time, late names the record.
    ("neither id nor user nor time", record(id=..., user=..., event_time_ms=...), "missing_id"),
    ("neither user nor time", record(user="", event_time_ms="x"), "missing_user"),
    ("late, without user", record(user="", event_time_ms=0), "missing_user"),
    ("late", record(event_time_ms=0), "late"),
]

IN_TIME: list[tuple[str, bytes, dict[str, Any]]] = [
    ("plain", record(), {"id": "i", "user": "u", "event_time_ms": TIME_MS, "payload": "p", "crc": 7}),
    ("unicode", record(id="ключ-🎲", user="用户"), {"id": "ключ-🎲", "user": "用户"}),
    ("escaped as bytes", '{"id":"é🎲","user":"ü","event_time_ms":1750000000000}'.encode(), {"id": "é🎲", "user": "ü"}),
    ("escaped pair of surrogates", rb'{"id":"\ud83c\udfb2","user":"u","event_time_ms":1}', {"id": "🎲"}),
    ("a backslash, then ud800", rb'{"id":"\\ud800","user":"u","event_time_ms":1}', {"id": r"\ud800"}),
    ("braces in a text", record(payload="} {} ]"), {"payload": "} {} ]"}),
    ("a nested object in the middle", b'{"a":{"b":{}},' + record()[1:], {"id": "i"}),
    ("quotes and control characters", record(id='a"b\\c\n\x00'), {"id": 'a"b\\c\n\x00'}),
    ("more fields", record(extra={"a": [1]}), {"id": "i"}),
    ("no payload, no checksum", record(payload=..., crc=...), {"payload": None, "crc": None}),
    ("time as text", record(event_time_ms=str(TIME_MS)), {"event_time_ms": TIME_MS}),
    ("15 digits", record(event_time_ms=10**15 - 1), {"event_time_ms": 10**15 - 1}),
    ("space around", b" \n" + record() + b"\n ", {"id": "i"}),
    ("a long id", record(id="x" * 10_000), {"id": "x" * 10_000}),
]


@pytest.fixture(scope="module")
def refused(spark: SparkSession) -> dict[str, Row]:
    values = [value for _, value, _ in REFUSED]
    return dict(zip([name for name, _, _ in REFUSED], judged(spark, values, TIME_MS), strict=True))


@pytest.fixture(scope="module")
def in_time(spark: SparkSession) -> dict[str, Row]:
    values: list[bytes | None] = [value for _, value, _ in IN_TIME]
    return dict(zip([name for name, _, _ in IN_TIME], judged(spark, values, 150_000), strict=True))


@pytest.mark.parametrize(("name", "value", "reason"), REFUSED, ids=[name for name, _, _ in REFUSED])
def test_a_record_that_cannot_be_counted_is_refused_with_its_reason_and_kept_as_it_came(
    refused: dict[str, Row], name: str, value: bytes | None, reason: str
) -> None:
    row = refused[name]
    assert row.reason == reason
    assert (None if row.value is None else bytes(row.value)) == value


@pytest.mark.parametrize(("name", "value", "fields"), IN_TIME, ids=[name for name, _, _ in IN_TIME])
def test_a_record_in_time_has_its_fields_and_carries_no_second_copy_of_itself(
    in_time: dict[str, Row], name: str, value: bytes, fields: dict[str, Any]
) -> None:
    row = in_time[name]
    assert row.reason is None
    assert row.value is None
    assert {field: row[field] for field in fields} == fields


def test_the_source_coordinate_stays_with_the_row(in_time: dict[str, Row]) -> None:
    assert [(row.topic, row.partition, row.offset) for row in in_time.values()] == [
        ("t", 0, n) for n in range(len(IN_TIME))
    ]


def test_nothing_is_late_before_the_first_watermark(spark: SparkSession) -> None:
    assert [row.reason for row in judged(spark, [record(event_time_ms=0)], None)] == [None]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    length_ms=st.integers(1, 10**7),
    lateness_ms=st.integers(0, 10**8),
    index=st.integers(0, 10**5),
    others=st.lists(st.integers(0, 10**13), max_size=20),
)
def test_the_late_rule_in_spark_is_the_rule_of_the_windows_to_the_millisecond(
    spark: SparkSession, length_ms: int, lateness_ms: int, index: int, others: list[int]
) -> None:
    windows = Windows(length_ms, lateness_ms)
    start = index * length_ms
    closes = start + length_ms + lateness_ms
    edges = [start - 1, start, start + length_ms - 1, start + length_ms]
    times = [time for time in edges if time >= 0] + others
    watermarks = [closes - 1, closes, closes + 1]
    frame = spark.createDataFrame([(time,) for time in times], "t long")
    rules = [f"{rows.late('t', windows, watermark_ms)} AS w{n}" for n, watermark_ms in enumerate(watermarks)]
    for time, row in zip(times, frame.selectExpr(*rules).collect(), strict=True):
        assert list(row) == [windows.closed(windows.start(time), watermark_ms) for watermark_ms in watermarks]
        if time in (start, start + length_ms - 1):
            assert list(row) == [False, True, True]


@pytest.mark.parametrize(("distance_ms", "reason"), [(-1, None), (0, "late"), (1, "late")])
def test_a_window_takes_records_until_the_watermark_reaches_its_end_and_the_lateness(
    spark: SparkSession, distance_ms: int, reason: str | None
) -> None:
    last_of_window = record(event_time_ms=59_999)
    first_of_next = record(event_time_ms=60_000)
    rows = judged(spark, [last_of_window, first_of_next], 60_000 + 120_000 + distance_ms)
    assert [row.reason for row in rows] == [reason, None]


def test_the_code_that_spark_generates_is_the_same_whatever_the_watermark(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else every epoch would wait for a compiler, and run code that is not warm."""
    generated = []
    before = spark.conf.get("spark.sql.codegen.wholeStage")
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    try:
        for watermark_ms in (TIME_MS, TIME_MS + 123_456):
            # A value that is no constant, which Spark would judge while it plans.
            blanks = f.repeat(f.lit(" "), f.col("id").cast("int"))
            frame = spark.range(1).select(
                f.lit("t").alias("topic"),
                f.lit(0).alias("partition"),
                f.col("id").alias("offset"),
                f.concat(f.lit(record().decode()), blanks).cast("binary").alias("value"),
            )
            given = rows.judge(pipeline, frame)
            rows.timely(pipeline, given, Windows(60_000, 120_000), watermark_ms).explain("codegen")
            told = capsys.readouterr().out
            generated.append([line for line in told.splitlines() if line.startswith("/*")])
    finally:
        spark.conf.set("spark.sql.codegen.wholeStage", before)
    assert generated[0] == generated[1] != []
