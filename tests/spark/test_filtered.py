"""Records that a transform leaves out: by Spark, in a trial, by the judge's reference, by a driver that is killed."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from effectively_once import Pipeline, Trial
from effectively_once.epoch import rows
from effectively_once.errors import SettingsError
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.harness.checkers.declared import Declaration, Given, replay
from tests.harness.definition.declared import describe, transform_all
from tests.harness.evidence import EpochRecord
from tests.spark.filtering_job import REASONS, marked, trial
from tests.spark.pipeline import PROCESSED_S, Commanded
from tests.spark.trials import COLUMNS, LATENESS_MS, LENGTH_MS, parsed, record, with_rows

pytestmark = pytest.mark.spark

RECORDS = [
    record("a", 900, "bot"),
    record("a", 1),
    record("a", 2),
    record(None, None, "probe", None),
    record("b", 1, "forbidden"),
    record("c", 1, "bot 9"),
    record("d", 1, None),
]
"""One that is left out with the id of the next, a copy, one without anything, two that are refused."""


def marking(mark: Column, **more: Any) -> Pipeline:
    """Mark every row so, with two sinks less than `trial`."""
    return with_rows(transform=lambda frame: parsed(frame).withColumn("filtered", mark), **more)


def judged(spark: SparkSession, pipeline: Pipeline, *records: dict[str, Any]) -> list[dict[str, Any]]:
    """What a driver makes of records, before it knows which are late."""
    sent = [(None, json.dumps(one).encode(), "t", 0, offset, None, 0) for offset, one in enumerate(records)]
    found = rows.judge(pipeline, spark.createDataFrame(sent, rows.KAFKA)).collect()
    return [row.asDict() for row in sorted(found, key=lambda row: row.offset)]


@pytest.mark.parametrize("shards", [1, 3])
def test_what_is_marked_is_counted_and_left_out_and_a_repeat_comes_to_the_same(
    spark: SparkSession, shards: int
) -> None:
    tried = Trial(trial, spark, shards)
    outputs = tried.epoch(RECORDS)
    assert [row["source"][2] for row in outputs["accepted"]] == [1]
    assert sorted(row["source"][2] for row in outputs["dead_letter"]) == [4, 6]
    assert tried.last.filtered == {"bot": 2, "probe": 1}
    assert tried.last.counts.model_dump(by_alias=True) == {
        "in": 7,
        "accepted": 1,
        "duplicate": 1,
        "late": 0,
        "malformed": 2,
    }
    assert tried.last.max_event_time_ms == 1, "a time that is left out moves nothing"
    shown = [(row["source"][2], row["reason"], json.loads(row["value"])["id"]) for row in tried.filtered]
    assert shown == [(0, "bot", "a"), (3, "probe", None), (5, "bot", "c")]
    assert tried.repeat() == outputs
    assert (tried.last.filtered, len(tried.filtered)) == ({"bot": 2, "probe": 1}, 3)
    again = tried.epoch([record("c", 3), record("a", 3)])
    assert [row["id"] for row in again["accepted"]] == ["c"], "only what was accepted has taken its id"
    assert (tried.last.filtered, tried.filtered) == ({}, [])


def test_the_judges_reference_comes_to_the_same_numbers(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    # One of its own would change settings of this process' session.
    monkeypatch.setattr("effectively_once.trial_session", lambda: spark)
    tried = Trial(trial, spark)
    outputs = tried.epoch(RECORDS)
    values = [base64.b64encode(json.dumps(one).encode()).decode() for one in RECORDS]
    place = {"key": None, "topic": "trial", "partition": 0, "timestamp": 0}
    lines = transform_all(trial, [{**place, "value": value, "offset": n} for n, value in enumerate(values)])
    given = sorted((Given.of(line) for line in lines), key=lambda one: one.source)
    assert [one.filtered for one in given] == ["bot", None, None, "probe", None, "bot", None]
    assert [one.reason for one in given] == [None, None, None, None, "forbidden", None, "missing_user"]
    told = {**describe(trial)["declaration"], "pipeline": "t", "window_ms": LENGTH_MS, "lateness_ms": LATENESS_MS}
    recorded = EpochRecord.model_validate_json(tried.last.model_dump_json(by_alias=True))
    found = replay(Declaration.of(told), given, [recorded])
    (numbers,) = found.numbers
    assert numbers.filtered == recorded.filtered == {"bot": 2, "probe": 1}
    assert (numbers.in_, numbers.accepted, numbers.duplicate, numbers.malformed) == (7, 1, 1, 2)
    assert [source[2] for source in found.due["accepted"]] == [row["source"][2] for row in outputs["accepted"]]


def test_a_record_that_is_left_out_keeps_where_it_was_and_why_alone(spark: SparkSession) -> None:
    kept, left = judged(spark, trial, record("a", 1), record("b", 1, "bot"))
    assert {name for name, value in kept.items() if value is None} == {"filtered", "reason"}
    assert {name: value for name, value in left.items() if value is not None} == {
        "topic": "t",
        "partition": 0,
        "offset": 1,
        "filtered": "bot",
        "reason": "filtered",
    }


MARKS: dict[str, tuple[Callable[[], Column], str | None]] = {
    "null": (lambda: f.lit(None).cast("string"), None),
    "undeclared": (lambda: f.lit("boot"), "undeclared_filter 'boot'"),
    "empty": (lambda: f.lit(""), "undeclared_filter ''"),
    "in other letters": (lambda: f.lit("Bot"), "undeclared_filter 'Bot'"),
    "no text": (lambda: f.expr("CAST(X'FF' AS STRING)"), "undeclared_filter '\ufffd'"),
    "long": (lambda: f.repeat(f.lit("x"), f.lit(1_000)), f"undeclared_filter '{'x' * 100}'"),
}


@pytest.mark.parametrize("what", MARKS)
def test_a_mark_that_is_not_declared_leaves_nothing_out(spark: SparkSession, what: str) -> None:
    """A driver makes a dead letter of the record, with its value; a trial names the mark. Null is no mark."""
    mark, reason = MARKS[what]
    pipeline = marking(mark(), filtered=REASONS)
    (row,) = judged(spark, pipeline, record("a", 1))
    assert (row["filtered"], row["reason"], row["id"]) == (None, reason, "a")
    assert json.loads(row["value"])["id"] == "a"
    tried = Trial(pipeline, spark, 1)
    if reason is None:
        assert [one["id"] for one in tried.epoch([record("a", 1)])["accepted"]] == ["a"]
        return
    with pytest.raises(SettingsError, match=r"^the transform marks records with .*, which filtered does not declare"):
        tried.epoch([record("a", 1)])


def test_what_the_author_refuses_is_refused_whatever_its_mark(spark: SparkSession) -> None:
    for mark in ("bot", "boot"):
        (row,) = judged(spark, marking(f.lit(mark), filtered=REASONS), record("a", 1, "forbidden"))
        assert (row["filtered"], row["reason"]) == (None, "forbidden")


def test_what_is_left_out_is_judged_no_further(spark: SparkSession) -> None:
    """It may lack what an accepted record needs: an id, a time, a column of windows."""
    found = judged(spark, trial, record(None, None, "bot", None), record(None, 1, "bot"))
    assert [row["reason"] for row in found] == ["filtered"] * 2


def test_an_id_of_bytes_is_text_all_the_same(spark: SparkSession) -> None:
    def transform(frame: DataFrame) -> DataFrame:
        return marked(frame).withColumn("id", f.col("id").cast("binary"))

    outputs = Trial(with_rows(transform=transform, filtered=REASONS), spark).epoch(RECORDS)
    assert sorted(row["id"] for row in outputs["accepted"]) == ["61", "64"]


def test_a_function_in_python_may_mark_rows(spark: SparkSession) -> None:
    def mark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            marks = pa.array(["bot" if user == "bot" else None for user in batch["user"].to_pylist()], pa.string())
            yield pa.RecordBatch.from_arrays([*batch.columns, marks], names=[*batch.schema.names, "filtered"])

    def transform(frame: DataFrame) -> DataFrame:
        given = parsed(frame)
        return given.mapInArrow(mark, StructType([*given.schema.fields, StructField("filtered", StringType())]))

    tried = Trial(with_rows(transform=transform, filtered=REASONS), spark, 1)
    outputs = tried.epoch(RECORDS[:2])
    assert ([row["source"][2] for row in outputs["accepted"]], tried.last.filtered) == ([1], {"bot": 1})


@pytest.mark.parametrize(
    ("pipeline", "says"),
    [
        (with_rows(filtered=REASONS), "filtered is missing"),
        (with_rows(transform=marked), r"filtered is there, and Pipeline\(filtered=...\) declares no reason"),
    ],
)
def test_a_column_without_its_declaration_and_a_declaration_without_its_column_are_refused(
    spark: SparkSession, pipeline: Pipeline, says: str
) -> None:
    with pytest.raises(SettingsError, match=f"^the transform gives other columns than declared: {says}"):
        Trial(pipeline, spark)


def test_a_mark_of_another_type_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SettingsError, match="filtered is int and must be string"):
        Trial(marking(f.lit(1), filtered=REASONS), spark)


def test_an_author_who_declares_no_reason_may_have_a_column_of_this_name(spark: SparkSession) -> None:
    pipeline = marking(f.lit("bot"), columns=pa.schema([*COLUMNS, ("filtered", pa.string())]))
    (row,) = Trial(pipeline, spark).epoch([record("a", 1)])["accepted"]
    assert row["filtered"] == "bot"


def test_rows_that_are_dropped_without_a_word_are_refused_with_the_way_out(spark: SparkSession) -> None:
    def dropping(frame: DataFrame) -> DataFrame:
        return marked(frame).where("filtered is null")

    with pytest.raises(SettingsError, match=r"its plan has Filter .*column filtered \(Pipeline\(filtered=...\)\)"):
        Trial(with_rows(transform=dropping, filtered=REASONS), spark)


class Filtering(Commanded):
    """A pipeline of `filtering_job`, whose input is one partition."""

    source_partitions = 1

    def read(self, sink: str) -> list[dict[str, Any]]:
        """Every committed message of a sink."""
        return [json.loads(value or b"") for _, _, value in self.raw(f"{self.name}.{sink}")]


def test_a_driver_that_is_killed_leaves_out_the_same_when_its_epoch_is_repeated(
    stack: EmbeddedStack, toolchain: Toolchain, tmp_path: Path
) -> None:
    job = {"job": "tests.spark.filtering_job", "shards": 2}
    filtering = Filtering(toolchain, stack.endpoints, tmp_path, "filtering", job)
    filtering.create_topics()
    producer = Producer(filtering.client)

    def send(*records: dict[str, Any]) -> None:
        for one in records:
            producer.produce(filtering.topic, json.dumps(one))
        assert producer.flush(60) == 0

    first = [*RECORDS, record("e", 1, "boot")]
    send(*first)
    driver = filtering.start()
    try:
        wait_for("the first epoch", PROCESSED_S, lambda: filtering.published_rows() >= len(first), driver)
        driver.kill()
        driver = filtering.start()
        repeated = {"state": "published", "repeat": True}
        wait_for("its repeat", PROCESSED_S, lambda: bool(filtering.events("epoch", **repeated)), driver)
        send(record("c", 2), record("a", 2), record("f", 2, "probe"))
        wait_for("three more", PROCESSED_S, lambda: filtering.published_rows() >= len(first) + 3, driver)
        driver.stop(30)
        assert driver.status() == 0, driver.post_mortem()
    finally:
        filtering.end()
    accepted = sorted((row["id"], row["source"][2]) for row in filtering.read("accepted"))
    assert accepted == [("a", 1), ("c", 8), ("d", 6)], "`d` has no user, which no window needs here"
    letters = sorted((row["source"][2], row["reason"]) for row in filtering.read("dead_letter"))
    assert letters == [(4, "forbidden"), (7, "undeclared_filter 'boot'")]
    before, *after = [Counter(one.filtered) for one in filtering.epochs()]
    assert (before, sum(after, Counter())) == ({"bot": 2, "probe": 1}, {"probe": 1})
    told = [line.get("filtered") for line in filtering.events("epoch", state="published", epoch=0)]
    assert len(told) >= 2, "both drivers announced it"
    assert all(one == before for one in told)
    for one in filtering.epochs():
        parts = one.counts.accepted + one.counts.duplicate + one.counts.late + one.counts.malformed
        assert one.counts.read == parts + sum(one.filtered.values())
