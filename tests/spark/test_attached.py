"""Where a row comes from is what it was made of: the library attaches it, whatever a transform keeps or says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once import PipelineError, Trial
from effectively_once.epoch import rows
from effectively_once.epoch.attached import attach
from effectively_once.errors import SettingsError
from effectively_once.testing import KafkaRecord
from tests.spark.trials import PIPELINE, parsed, record, with_rows

pytestmark = pytest.mark.spark

NAMES = ("topic", "partition", "offset", "value")
ID = "cast(value AS STRING) AS id"


def bare(frame: DataFrame) -> DataFrame:
    """What `parsed` gives, without anything of Kafka's."""
    return parsed(frame).drop(*NAMES)


def kept_alone(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def source(spark: SparkSession) -> DataFrame:
    sent = [(None, f"a{n}".encode(), "t", 3, n, None, 0) for n in range(3)]
    return spark.createDataFrame(sent, rows.KAFKA)


def looked_up(frame: DataFrame, how: str) -> DataFrame:
    table = frame.sparkSession.range(2).selectExpr("concat('a', id) AS id", "id + 5 AS number")
    return table.join(frame.selectExpr(ID), "id", how).select("id", "number")


GIVEN: dict[str, Callable[[DataFrame], DataFrame]] = {
    "a projection": lambda frame: frame.selectExpr(ID),
    "many": lambda frame: frame.selectExpr(ID).withColumn("twice", f.concat("id", "id")).drop("twice").toDF("ID"),
    "a view": lambda frame: frame.sparkSession.sql("SELECT CAST(value AS STRING) AS id FROM {given}", given=frame),
    "a look-up": lambda frame: looked_up(frame, "right"),
    "an inner join": lambda frame: looked_up(frame, "inner"),
    "other partitions": lambda frame: frame.selectExpr(ID).repartition(2, "id"),
    "coordinates of its own": lambda frame: frame.selectExpr(
        ID, "'other' AS topic", "offset AS partition", "7L AS offset"
    ),
    "one of them twice": lambda frame: frame.selectExpr(ID, "*", "offset"),
    "in other letters": lambda frame: frame.selectExpr(ID, "topic", "partition", "OFFSET"),
}


@pytest.mark.parametrize("what", GIVEN)
def test_a_row_has_the_coordinates_of_the_record_that_it_was_made_of(spark: SparkSession, what: str) -> None:
    frame = source(spark)
    found = attach(GIVEN[what](frame), frame, ("value",)).selectExpr("id", *NAMES).collect()
    expected = [(f"a{n}", "t", 3, n, f"a{n}".encode()) for n in range(2 if "inner" in what else 3)]
    assert sorted(map(tuple, found)) == expected


def test_a_value_that_a_transform_gives_otherwise_is_what_a_dead_letter_shows(spark: SparkSession) -> None:
    def masked(frame: DataFrame) -> DataFrame:
        return bare(frame).withColumn("value", f.lit("***").cast("binary"))

    outputs = Trial(with_rows(transform=masked), spark, 1).epoch([record(user="forbidden")])
    assert [row["value"] for row in outputs["dead_letter"]] == ["***"]


UNTOUCHED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "all of it": lambda frame: frame.withColumn("id", f.col("value").cast("string")),
    "batches in Python": lambda frame: frame.select("value").mapInArrow(kept_alone, "value binary"),
    "rows of no record": lambda frame: looked_up(frame, "left"),
    "rows of either side": lambda frame: looked_up(frame, "full"),
}


@pytest.mark.parametrize("what", UNTOUCHED)
def test_what_has_all_or_comes_from_no_one_record_stays_as_it_is(spark: SparkSession, what: str) -> None:
    frame = source(spark)
    given = UNTOUCHED[what](frame)
    assert attach(given, frame, ("value",) if "value" in given.columns else ()) is given


@pytest.mark.parametrize("name", NAMES)
def test_a_function_on_batches_that_loses_a_column_is_refused_by_its_name(spark: SparkSession, name: str) -> None:
    def losing(frame: DataFrame) -> DataFrame:
        given = parsed(frame).drop(name)
        return given.mapInArrow(kept_alone, given.schema)

    with pytest.raises(SettingsError, match=rf"gives other columns than declared: {name} is missing \(.*losing.*mapIn"):
        Trial(with_rows(transform=losing), spark)


def test_one_that_keeps_them_is_as_good_as_ever(spark: SparkSession) -> None:
    def keeping(frame: DataFrame) -> DataFrame:
        given = parsed(frame)
        return given.mapInArrow(kept_alone, given.schema)

    outputs = Trial(with_rows(transform=keeping), spark, 1).epoch([record("a"), record("b")])
    assert [(row["id"], row["source"]) for row in outputs["accepted"]] == [
        ("a", ["trial", 0, 0]),
        ("b", ["trial", 0, 1]),
    ]


EPOCHS: list[list[Any]] = [
    [record("a", 5), record("b", 7, "bob"), record("a", 5), record("c", 9, "forbidden"), "{"],
    [record("b", 7, "bob"), record("d", 180), record("e", None), record("f", 1_000)],
    [record("g", 3), record("h", 2_000)],
]


def test_a_transform_that_keeps_them_and_one_that_does_not_come_to_the_same(spark: SparkSession) -> None:
    """What a chain is bound to, what each epoch shows, and what is left in the state."""
    without = replace(PIPELINE, transform=bare)
    assert (without.bound, without.input) == (PIPELINE.bound, PIPELINE.input)
    trials = Trial(PIPELINE, spark), Trial(without, spark)
    for values in EPOCHS:
        shown, same = (trial.epoch(values) for trial in trials)
        assert shown == same
        counts, others = ((t.last.counts, t.last.max_event_time_ms, t.last.sinks) for t in trials)
        assert counts == others
    assert trials[1].repeat() == same


def test_a_time_ahead_is_measured_by_the_records_own(spark: SparkSession) -> None:
    trial = Trial(with_rows(transform=bare, ahead_ms=10), spark, 1)
    outputs = trial.epoch(
        [KafkaRecord(record("a", 110), timestamp_ms=100), KafkaRecord(record("b", 111), timestamp_ms=100)]
    )
    assert [row["id"] for row in outputs["accepted"]] == ["a"]
    assert [row["reason"] for row in outputs["dead_letter"]] == ["ahead"]


def test_records_that_a_join_loses_are_found_by_a_trial(spark: SparkSession) -> None:
    def losing(frame: DataFrame) -> DataFrame:
        known = spark.range(1).selectExpr("'ann' AS user")
        return bare(frame).join(known, "user")

    with pytest.raises(PipelineError, match="gives 1 rows for 2 records"):
        Trial(with_rows(transform=losing), spark, 1).epoch([record("a"), record("b", user="bob")])


FOLDERS = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"


@pytest.fixture
def checkpoints_in_folders(spark: SparkSession) -> Iterator[None]:
    """Have queries keep their checkpoint as Spark does by itself: ours needs an object store."""
    name = "spark.sql.streaming.checkpointFileManagerClass"
    ours = spark.conf.get(name)
    spark.conf.set(name, FOLDERS)
    yield
    spark.conf.set(name, ours)


@pytest.mark.usefixtures("checkpoints_in_folders")
def test_a_stream_is_given_them_too(spark: SparkSession) -> None:
    """As a driver plans the transform: once, on the stream."""
    columns = ["CAST(NULL AS BINARY) AS key", "CAST(CAST(value AS STRING) AS BINARY) AS value", "'t' AS topic"]
    columns += ["1 AS partition", "value AS offset", "timestamp", "0 AS timestampType"]
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load().selectExpr(*columns)
    seen: list[Any] = []
    given = attach(frame.selectExpr(ID), frame, ("value",))
    query = given.writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect())).trigger(availableNow=True)
    query.start().awaitTermination(60)
    assert seen
    assert {row.id for row in seen} == {str(row.offset) for row in seen}
