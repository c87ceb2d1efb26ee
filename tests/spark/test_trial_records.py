"""Whatever a record holds, a trial goes on: it is accepted, or a dead letter with its reason."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once import ToFiles, ToKafka, ToTable, Trial
from effectively_once.sinks.tables import COLUMN_TYPES
from effectively_once.testing import KafkaRecord
from tests.spark.trials import PIPELINE, parsed, record, with_rows

pytestmark = pytest.mark.spark


def test_a_record_may_be_given_as_bytes_text_or_fields(spark: SparkSession) -> None:
    trial = Trial(with_rows(), spark)
    outputs = trial.epoch([json.dumps(record("a")).encode(), json.dumps(record("b")), record("c"), None])
    assert sorted(row["id"] for row in outputs["accepted"]) == ["a", "b", "c"]
    assert [(row["reason"], row["value"]) for row in outputs["dead_letter"]] == [("missing_id", None)]


def test_a_null_that_windows_need_makes_a_dead_letter_of_its_name(spark: SparkSession) -> None:
    """The transform's own reason goes first; a null that nobody needs is none."""
    trial = Trial(PIPELINE, spark, 1)
    outputs = trial.epoch([record("a", 1, None), record("b", 1, "ann", None), record("c", 1, "forbidden", None)])
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [
        ("a", "missing_user"),
        ("b", "missing_n"),
        ("c", "forbidden"),
    ]
    assert outputs["accepted"] == []
    strict = pa.schema([column.with_nullable(column.name != "user") for column in PIPELINE.columns])
    (letter,) = Trial(replace(with_rows(), columns=strict), spark, 1).epoch([record("a", 1, None, 2)])["dead_letter"]
    assert letter["reason"] == "missing_user"
    free = Trial(with_rows(), spark, 1).epoch([record("a", 1, None, None)])
    assert [(row["user"], row["n"]) for row in free["accepted"]] == [(None, None)]


TYPED = pa.schema([(f"c{number}", kind) for number, kind in enumerate((*COLUMN_TYPES, pa.decimal128(38, 2)))])
LITERALS = [
    "'é'",
    "9223372036854775807L",
    "-1",
    "0.1D",
    "true",
    "x'00ff'",
    "date'2026-01-31'",
    "timestamp'2026-01-31 01:02:03.000004Z'",
    "cast(-1.5 as decimal(38, 2))",
]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_type_of_column_comes_through(spark: SparkSession, zone: str) -> None:
    """With a value and as null, in messages and tables, whatever the session's time zone is."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        types_come_through(spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def types_come_through(spark: SparkSession) -> None:
    def typed(frame: DataFrame) -> DataFrame:
        given = parsed(frame)
        for name, text in zip(TYPED.names, LITERALS, strict=True):
            given = given.withColumn(name, f.expr(f"if(n = 1, {text}, null)"))
        return given

    trial = Trial(with_rows(ToKafka("told"), ToTable("kept"), transform=typed, columns=TYPED), spark, 1)
    outputs = trial.epoch([record("a", n=1), record("b", n=2)])
    told = [[row[name] for name in TYPED.names] for row in outputs["told"]]
    assert told == [
        ["é", 2**63 - 1, -1, 0.1, True, "00ff", "2026-01-31", "2026-01-31T01:02:03.000004+00:00", "-1.50"],
        [None] * 9,
    ]
    assert [[row[name] for name in TYPED.names] == [None] * 9 for row in outputs["kept"]] == [False, True]
    assert trial.repeat() == outputs


LAST_MS = 10**15 - 1
TIMES = {
    2**63 - 1: "bad_time",
    -(2**63): "bad_time",
    LAST_MS + 1: "bad_time",
    -LAST_MS - 1: "bad_time",
    -LAST_MS: "late",
}


def test_no_time_that_a_record_can_have_stops_the_pipeline(spark: SparkSession) -> None:
    """Every later attempt would come to it again."""
    trial = Trial(PIPELINE, spark)
    trial.epoch([record("a", 0)])
    outputs = trial.epoch([record(str(time_ms), time_ms) for time_ms in TIMES])
    assert {int(row["id"]): row["reason"] for row in outputs["dead_letter"]} == TIMES
    assert (len(outputs["dead_letter"]), outputs["accepted"]) == (len(TIMES), [])
    assert [row["id"] for row in trial.epoch([record("c", 1)])["accepted"]] == ["c"]


def test_the_last_time_there_is_closes_every_window_before_it(spark: SparkSession) -> None:
    trial = Trial(PIPELINE, spark)
    trial.epoch([record("a", 0)])
    outputs = trial.epoch([record("b", LAST_MS)])
    assert ([row["id"] for row in outputs["accepted"]], outputs["dead_letter"]) == (["b"], [])
    closed = trial.epoch([record("c", 10**6)])
    assert [row["count"] for row in closed["per_user"]] == [1]
    assert [row["reason"] for row in closed["dead_letter"]] == ["late"]


def test_no_text_that_a_record_can_hold_stops_the_pipeline(spark: SparkSession) -> None:
    """Spark's cast from bytes takes any bytes; what is not UTF-8 is no text to anybody else."""

    def as_text(frame: DataFrame) -> DataFrame:
        text = f.col("value").cast("string")
        return frame.select(
            "topic",
            "partition",
            "offset",
            "value",
            f.md5("value").alias("id"),
            text.alias("text"),
            f.lit(0).cast("long").alias("event_time_ms"),
            f.lit(None).cast("string").alias("reason"),
        )

    trial = Trial(with_rows(transform=as_text, columns=pa.schema([("text", pa.string())])), spark)
    outputs = trial.epoch([b"\xff\xfe", b"ok"])
    assert [row["text"] for row in outputs["accepted"]] == ["ok"]
    assert [(row["reason"], row["value"]) for row in outputs["dead_letter"]] == [("bad_text", "//4=")]


def test_a_table_takes_no_text_with_a_zero_byte_so_it_is_a_dead_letter(spark: SparkSession) -> None:
    """PostgreSQL would refuse the epoch, and every repeat of it. Messages hold any text."""
    values = [{**record("a"), "user": "a\x00b"}, record("b")]
    outputs = Trial(with_rows(ToTable("orders")), spark).epoch(values)
    assert [row["id"] for row in outputs["orders"]] == ["b"]
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [("a", "bad_user")]
    free = Trial(with_rows(ToKafka("told")), spark, 1).epoch(values)
    assert [row["user"] for row in free["told"]] == ["a\x00b", "ann"]


FLOATS = ["0.1D", "double('NaN')", "double('Infinity')", "-double('Infinity')", "null"]


def test_a_number_that_is_none_is_a_dead_letter_of_its_column_whatever_the_sink(spark: SparkSession) -> None:
    """Messages would show null, tables and files NaN: no two readers would see the same."""

    def measured(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("level", f.expr(f"element_at(array({', '.join(FLOATS)}), int(n))"))

    columns = pa.schema([("level", pa.float64())])
    for to in (ToKafka("told"), ToTable("told"), ToFiles("told")):
        trial = Trial(with_rows(to, transform=measured, columns=columns), spark, 1)
        outputs = trial.epoch([record(f"i{n}", n=n) for n in range(1, len(FLOATS) + 1)])
        assert [(row["id"], row["level"]) for row in outputs["told"]] == [("i1", 0.1), ("i5", None)]
        assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [
            (f"i{n}", "bad_level") for n in (2, 3, 4)
        ]


def test_no_bytes_that_stand_for_an_id_stop_the_pipeline(spark: SparkSession) -> None:
    """An id that is no text is no id: the dead letter has none, and the record's value as it came."""

    def by_key(frame: DataFrame) -> DataFrame:
        return frame.select(
            "topic",
            "partition",
            "offset",
            "value",
            f.col("key").cast("string").alias("id"),
            f.lit(0).cast("long").alias("event_time_ms"),
            f.lit(None).cast("string").alias("reason"),
        )

    trial = Trial(with_rows(transform=by_key, columns=pa.schema([])), spark)
    outputs = trial.epoch(
        [KafkaRecord(b"v", key=b"\xff\xfe"), KafkaRecord(b"w", key=b"\xed\xa0\x80"), KafkaRecord(b"x", key=b"b")]
    )
    assert [row["id"] for row in outputs["accepted"]] == ["b"]
    assert sorted((row["reason"], row["id"], row["value"]) for row in outputs["dead_letter"]) == [
        ("bad_id", None, "v"),
        ("bad_id", None, "w"),
    ]
    assert trial.repeat() == outputs


def test_a_reason_that_quotes_what_is_no_text_is_told_with_signs_in_its_place(spark: SparkSession) -> None:
    def quoting(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("reason", f.concat(f.lit("bad "), f.col("value").cast("string")))

    outputs = Trial(with_rows(transform=quoting), spark).epoch([b"\xff"])
    assert [row["reason"] for row in outputs["dead_letter"]] == ["bad \ufffd"]


def test_an_empty_id_is_none(spark: SparkSession) -> None:
    """Three records without a name are not one record sent three times."""
    outputs = Trial(with_rows(), spark).epoch([record(""), record(""), record("a")])
    assert [row["id"] for row in outputs["accepted"]] == ["a"]
    assert [row["reason"] for row in outputs["dead_letter"]] == ["missing_id"] * 2


@pytest.mark.parametrize("text", ["a", "é"])
def test_a_text_too_long_for_the_key_of_a_table_is_a_dead_letter_of_its_column(spark: SparkSession, text: str) -> None:
    """PostgreSQL's index would refuse the epoch, and every repeat of it; in a column beside the key it is welcome."""
    longest = text * (2_664 // len(text.encode()))
    values = [record("a", user=longest), record("b", user=longest + "x"), record("c" * 2_681)]
    given = Trial(PIPELINE, spark, 1).epoch(values)
    assert [(row["id"], row["reason"]) for row in given["dead_letter"]] == [("b", "long_user")]
    kept = Trial(with_rows(ToTable("orders", key=("id",))), spark, 1).epoch(values)
    assert [row["id"] for row in kept["orders"]] == ["a", "b"]
    assert [row["reason"] for row in kept["dead_letter"]] == ["long_id"]


@pytest.mark.parametrize("days", [1, -3_700_000])
def test_no_date_that_a_record_can_hold_stops_the_pipeline(spark: SparkSession, days: int) -> None:
    """Spark knows years that Python, and PostgreSQL's client, do not."""

    def dated(frame: DataFrame) -> DataFrame:
        last = f.lit("9999-12-31").cast("date")
        return parsed(frame).withColumn("day", f.date_add(last, f.lit(days) * f.col("n").cast("int")))

    trial = Trial(with_rows(transform=dated, columns=pa.schema([("day", pa.date32())])), spark)
    outputs = trial.epoch([record("a", n=1), record("b", n=0)])
    assert [row["day"] for row in outputs["accepted"]] == ["9999-12-31"]
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [("a", "bad_day")]


def test_a_record_that_is_ahead_of_its_kafka_timestamp_is_a_dead_letter(spark: SparkSession) -> None:
    """One wrong clock does not close the windows of all."""

    def sent(frame: DataFrame) -> DataFrame:
        return parsed(frame).join(frame.select("offset", "timestamp"), "offset")

    trial = Trial(replace(PIPELINE, transform=sent, ahead_ms=10), spark)
    outputs = trial.epoch([KafkaRecord(record(id_, t), timestamp_ms=1000) for id_, t in (("a", 1010), ("b", 1011))])
    assert [row["id"] for row in outputs["accepted"]] == ["a"]
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [("b", "ahead")]


def test_a_record_may_have_a_key_and_a_time_of_its_own(spark: SparkSession) -> None:
    """A transform sees them as it does those of a topic; a value alone has neither."""

    def keyed(frame: DataFrame) -> DataFrame:
        return frame.select(
            "topic",
            "partition",
            "offset",
            "value",
            f.md5("value").alias("id"),
            f.coalesce(f.unix_millis("timestamp"), f.lit(7)).alias("event_time_ms"),
            f.coalesce(f.col("key").cast("string"), f.lit("nobody")).alias("user"),
            f.lit(None).cast("string").alias("reason"),
        )

    trial = Trial(with_rows(transform=keyed, columns=pa.schema([("user", pa.string())])), spark, 1)
    outputs = trial.epoch(
        [
            KafkaRecord("a", key="ann", timestamp_ms=1_700_000_000_123),
            KafkaRecord(b"b", key=b"b\xc3\xb6b", timestamp_ms=-1),
            KafkaRecord({"c": 1}, key=""),
            "d",
        ]
    )
    assert [(row["user"], row["event_time_ms"]) for row in outputs["accepted"]] == [
        ("ann", 1_700_000_000_123),
        ("böb", -1),
        ("", 7),
        ("nobody", 7),
    ]
    assert trial.repeat() == outputs
