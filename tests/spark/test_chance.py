"""What a repeat would answer otherwise is refused by its name before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from structlog.testing import capture_logs

from effectively_once.errors import SettingsError, SinkError
from effectively_once.testing import Trial
from tests.spark.trials import parsed, record, with_rows

pytestmark = pytest.mark.spark


def drawn() -> Any:
    return f.udf(lambda n: n + 4, "long").asNondeterministic()


OTHERWISE: dict[str, Callable[[], Column]] = {
    "rand": lambda: (f.rand() * 2**60).cast("long"),
    "rand ": lambda: (f.rand(seed=7) * 2**60).cast("long"),
    "uuid": lambda: f.xxhash64(f.expr("uuid()")),
    "monotonically_increasing_id": f.monotonically_increasing_id,
    "current_timestamp": lambda: f.unix_millis(f.current_timestamp()),
    "now": lambda: f.unix_millis(f.expr("now()")),
    "localtimestamp": lambda: f.localtimestamp().cast("timestamp").cast("long"),
    "current_date": lambda: f.unix_date(f.current_date()).cast("long"),
    "current_timestamp ": f.unix_timestamp,
    "<lambda>": lambda: drawn()("n"),
    "rand  ": lambda: f.element_at(f.transform(f.array(f.lit(1)), lambda _: f.rand()), 1).cast("long"),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_an_expression_that_answers_otherwise_in_a_repeat_is_refused_by_its_name(
    spark: SparkSession, name: str
) -> None:
    def transform(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("n", OTHERWISE[name]())

    says = rf"^the transform answers otherwise in a repeat: {name.strip()} \(.*transform\).*RecordedStep"
    with pytest.raises(SettingsError, match=says):
        Trial(with_rows(transform=transform), spark)


def test_all_are_named_once_wherever_they_stand(spark: SparkSession) -> None:
    def looked_up(frame: DataFrame) -> DataFrame:
        other = spark.range(3).select(f.col("id").alias("n"), f.uuid().alias("mark"))
        late = f.when(f.col("user") < f.current_date().cast("string"), f.rand().cast("string"))
        rows = parsed(frame).withColumn("reason", f.coalesce("reason", late, f.rand().cast("string")))
        return rows.join(f.broadcast(other), "n", "left").drop("mark")

    with pytest.raises(SettingsError, match=r"in a repeat: current_date, rand, uuid \("):
        Trial(with_rows(transform=looked_up), spark)


def test_a_subquery_is_looked_into(spark: SparkSession) -> None:
    def transform(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("n", f.expr("(SELECT max(unix_millis(now())) FROM range(1))"))

    with pytest.raises(SettingsError, match=r"in a repeat: now \("):
        Trial(with_rows(transform=transform), spark)


def test_an_order_that_is_made_good_again_is_no_chance(spark: SparkSession) -> None:
    def looked_up(frame: DataFrame) -> DataFrame:
        marks = f.element_at(f.sort_array(f.collect_list("id")), 1).alias("first")
        return parsed(frame).crossJoin(f.broadcast(spark.range(3).agg(marks))).withColumn("n", f.col("first"))

    outputs = Trial(with_rows(transform=looked_up), spark, 1).epoch([record("a", n=1)])
    assert [row["n"] for row in outputs["accepted"]] == [0]


def test_a_clock_in_an_aggregate_is_found_all_the_same(spark: SparkSession) -> None:
    def looked_up(frame: DataFrame) -> DataFrame:
        other = spark.range(3).agg(f.max(f.current_timestamp()).alias("most"))
        return parsed(frame).crossJoin(f.broadcast(other)).drop("most")

    with pytest.raises(SettingsError, match=r"in a repeat: current_timestamp \("):
        Trial(with_rows(transform=looked_up), spark)


def test_what_answers_the_same_is_taken(spark: SparkSession) -> None:
    """A function in Python too: what it does, only its author knows, and a repeat."""

    def steady(frame: DataFrame) -> DataFrame:
        plus = f.udf(lambda n: n + 4, "long")
        return parsed(frame).withColumn("n", plus("n") + f.unix_date(f.to_date(f.lit("1970-01-02"))))

    trial = Trial(with_rows(transform=steady), spark, 1)
    assert [row["n"] for row in trial.epoch([record("a", n=1)])["accepted"]] == [6]
    trial.repeat()


@pytest.mark.parametrize(("declared", "named"), [((), ["plus"]), (("plus",), [])])
def test_a_start_warns_of_a_function_in_python_unless_its_author_vouches_for_it(
    spark: SparkSession, declared: tuple[str, ...], named: list[str]
) -> None:
    def plus(n: int) -> int:
        return n + 4

    def transform(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("n", f.udf(plus, "long")("n"))

    with capture_logs() as told:
        Trial(with_rows(transform=transform, deterministic_udfs=declared), spark)
    warned = [line["what"].rpartition(": ")[2] for line in told if line.get("warning") == "python_udf"]
    assert warned == named


def test_a_function_in_python_that_is_not_marked_is_found_out_by_a_repeat(spark: SparkSession) -> None:
    """Spark takes every function in Python for deterministic unless it is marked: the plan does not tell."""

    def drawing(frame: DataFrame) -> DataFrame:
        def draw(_: int) -> int:
            import random  # noqa: PLC0415 - in the worker

            return random.SystemRandom().getrandbits(60)

        return parsed(frame).withColumn("n", f.udf(draw, "long")("n"))

    trial = Trial(with_rows(transform=drawing), spark)
    trial.epoch([record("a"), record("b")])
    with pytest.raises(SinkError, match=r"^a repeat of epoch 0 publishes other rows .*declare it as a recorded step"):
        trial.repeat()
