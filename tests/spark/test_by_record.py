"""A transform is a function of one record: what looks at other records, loses or doubles some is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from effectively_once.errors import PipelineError, SettingsError
from effectively_once.testing import Trial
from tests.spark.trials import parsed, record, with_rows

pytestmark = pytest.mark.spark

OTHERS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "Filter": lambda rows: rows.where("n > 0"),
    "Generate": lambda rows: rows.withColumn("twice", f.explode(f.array(f.lit(1), f.lit(2)))).drop("twice"),
    "Deduplicate": lambda rows: rows.dropDuplicates(["id"]),
    "Sort": lambda rows: rows.orderBy("n"),
    "GlobalLimit, LocalLimit": lambda rows: rows.limit(1),
    "Window": lambda rows: rows.withColumn("n", f.count("id").over(Window.partitionBy("user"))),
    "Union": lambda rows: rows.union(rows),
}


@pytest.mark.parametrize("operators", OTHERS)
def test_an_operator_that_is_not_by_record_is_refused_by_its_name(spark: SparkSession, operators: str) -> None:
    with pytest.raises(SettingsError, match=rf"no function of one record: its plan has {operators} "):
        Trial(with_rows(transform=lambda frame: OTHERS[operators](parsed(frame))), spark)


def test_a_look_up_in_another_table_is_no_such_operator_whatever_that_table_is_made_of(spark: SparkSession) -> None:
    def with_names(frame: DataFrame) -> DataFrame:
        names = spark.createDataFrame([("ann", 7), ("bob", 0)], "user string, number long").where("number > 0")
        return parsed(frame).join(f.broadcast(names), "user", "left").withColumn("n", f.col("number")).drop("number")

    outputs = Trial(with_rows(transform=with_names), spark, 1).epoch([record("a", 1, "ann"), record("b", 1, "bob")])
    assert [(row["user"], row["n"]) for row in outputs["accepted"]] == [("ann", 7), ("bob", None)]


def test_rows_that_a_function_in_python_loses_are_found_by_a_trial(spark: SparkSession) -> None:
    """The plan does not tell."""

    def none(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.slice(0, 0) for batch in batches)

    def losing(frame: DataFrame) -> DataFrame:
        return (rows := parsed(frame)).mapInArrow(none, rows.schema)

    with pytest.raises(PipelineError, match="gives 0 rows for 2 records"):
        Trial(with_rows(transform=losing), spark, 1).epoch([record("a", 1), record("b", 1)])
