"""Transforms that cannot work: refused by the name of what is wrong, by a repeat, or by the number of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once import PipelineError, ToKafka, Trial
from effectively_once.epoch.rows import TIME_MAX_MS
from effectively_once.errors import SettingsError, SinkError
from effectively_once.state.lateness import LONGEST_MS
from tests.spark.trials import PIPELINE, parsed, record, with_rows

pytestmark = pytest.mark.spark


def test_a_time_that_differs_in_a_repeat_is_found_out_where_no_sink_tells_it(spark: SparkSession) -> None:
    """The watermark would be another one after a crash."""
    draws = iter([0, 0, 50])  # the check of the columns, the epoch, its repeat

    def drawing(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("event_time_ms", f.lit(next(draws)).cast("long"))

    trial = Trial(with_rows(ToKafka("accepted", columns=("id",)), transform=drawing), spark)
    trial.epoch([record("a")])
    with pytest.raises(SinkError, match=r"^a repeat of epoch 0"):
        trial.repeat()


def test_the_longest_times_that_may_be_declared_are_computed_with_in_the_second_epoch_too(spark: SparkSession) -> None:
    def sent(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("timestamp", f.timestamp_millis("event_time_ms"))

    longest = replace(PIPELINE, window_ms=LONGEST_MS, lateness_ms=LONGEST_MS, ahead_ms=LONGEST_MS)
    trial = Trial(replace(longest, transform=sent), spark)
    for id_, time_ms in (("a", TIME_MAX_MS), ("b", 0), ("c", 1)):
        outputs = trial.epoch([record(id_, time_ms)])
        assert [row["id"] for row in outputs["accepted"]] == [id_], outputs
    trial.repeat()


@pytest.mark.parametrize("name", ["id", "event_time_ms", "user", "n", "reason"])
def test_a_transform_that_loses_a_column_is_refused_by_its_name(spark: SparkSession, name: str) -> None:
    with pytest.raises(SettingsError, match=rf"gives other columns than declared: {name} is missing \(.*losing"):

        def losing(frame: DataFrame) -> DataFrame:
            return parsed(frame).drop(name)

        Trial(with_rows(transform=losing), spark)


@pytest.mark.parametrize("name", ["user", "User", "REASON"])
def test_a_transform_that_gives_a_column_twice_is_refused_by_its_name(spark: SparkSession, name: str) -> None:
    """To Spark names that differ in case are one."""

    def twice(frame: DataFrame) -> DataFrame:
        return parsed(frame).select("*", f.lit("other").alias(name))

    with pytest.raises(SettingsError, match=f"gives other columns than declared: {name.lower()} is there twice"):
        Trial(with_rows(transform=twice), spark)


OTHERS = [
    ("n", "int", "n is int and must be int64"),
    ("n", "decimal(9,2)", r"n is decimal\(9,2\) and must be int64"),
    ("n", "array<int>", "n is array<int> and must be int64"),
    ("user", "binary", "user is binary and must be string"),
    ("event_time_ms", "string", "event_time_ms is string and must be int64"),
    ("reason", "void", "reason is void and must be string"),
    ("id", "long", "id is bigint and must be string"),
    ("n", "timestamp", "n is timestamp and must be int64"),
    ("n", "interval", "n is interval and must be int64"),
]


@pytest.mark.parametrize(("name", "kind", "says"), OTHERS)
def test_a_column_of_another_type_is_refused_by_its_name(spark: SparkSession, name: str, kind: str, says: str) -> None:
    def other(frame: DataFrame) -> DataFrame:
        value = f.expr("make_interval(1)") if kind == "interval" else f.lit(None).cast(kind)
        return parsed(frame).withColumn(name, value)

    with pytest.raises(SettingsError, match=f"gives other columns than declared: {says}"):
        Trial(with_rows(transform=other), spark)


@pytest.mark.parametrize("error", [ValueError("two\nlines"), AssertionError()], ids=str)
def test_a_transform_that_fails_is_refused_before_anything_runs(spark: SparkSession, error: Exception) -> None:
    def failing(_: DataFrame) -> DataFrame:
        raise error

    with pytest.raises(SettingsError, match=r"^the transform fails on no rows: .*failing"):
        Trial(with_rows(transform=failing), spark)


def filtered(frame: DataFrame) -> DataFrame:
    return parsed(frame).where("n > 0")


def doubled(frame: DataFrame) -> DataFrame:
    return parsed(frame).withColumn("twice", f.explode(f.array(f.lit(1), f.lit(2)))).drop("twice")


@pytest.mark.parametrize("transform", [filtered, doubled])
def test_a_transform_that_loses_or_doubles_records_is_found_out(
    spark: SparkSession, transform: Callable[[DataFrame], DataFrame]
) -> None:
    """One row out for each row in: what is filtered away would be lost, without a dead letter to tell it."""
    with pytest.raises(PipelineError, match="row"):
        Trial(with_rows(transform=transform), spark).epoch([record("a", n=1), record("b", n=0)])
