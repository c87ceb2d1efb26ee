"""Records of several rows: made by Spark, in a trial, and by the judge's reference."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once import Count, Explode, Pipeline, Sum, ToFiles, ToKafka, ToTable, Trial, Windowed
from effectively_once.epoch import rows
from effectively_once.errors import SettingsError
from tests.harness.checkers.declared import Declaration, Given, replay
from tests.harness.checkers.declared_run import broken_records
from tests.harness.definition.declared import describe, transform_all
from tests.harness.evidence import EpochRecord

pytestmark = pytest.mark.spark

FIELDS = "id string, t long, user string, items array<struct<sku string, n long, reason string, filtered string>>"


def orders(frame: DataFrame) -> DataFrame:
    """An order with its lines; what is no object of it has nothing."""
    record = f.from_json(f.col("value").cast("string"), FIELDS)
    return frame.select(
        record["id"].alias("id"),
        record["t"].alias("event_time_ms"),
        record["user"].alias("user"),
        record["items"].alias("items"),
        f.when(record["user"] == "forbidden", "forbidden").alias("reason"),
        f.when(record["user"].startswith("bot"), record["user"]).alias("filtered"),
    )


PIPELINE = Pipeline(
    orders,
    pa.schema([("user", pa.string()), ("sku", pa.string()), pa.field("n", pa.int64(), nullable=False)]),
    rows=(ToKafka("accepted", key="user"), ToTable("lines", key=("id",))),
    window_ms=100,
    lateness_ms=50,
    windows=(
        Windowed("sku", {"lines": Count(), "n": Sum("n")}, ToKafka("per_sku", key="sku"), totals=ToFiles("totals")),
    ),
    filtered=("bot", "gift"),
    explode=Explode("items", rows_max=3),
)


def line(sku: str | None, n: int | None = 1, **more: Any) -> dict[str, Any]:
    return {"sku": sku, "n": n, **more}


def order(id_: str | None, *lines: Any, t: int | None = 1, user: str = "ann") -> dict[str, Any]:
    return {"id": id_, "t": t, "user": user, "items": [*lines]}


RECORDS = [
    order("a", line("x"), line("y", 2)),
    order("a", line("x"), line("y", 2)),
    order("a#0", line("x")),
    order("b", line("x"), line("z", filtered="gift"), line("y", None)),
    order("c"),
    {"id": "d", "t": 1, "user": "ann"},
    order("e", *[line("x")] * 4),
    order("f", line("x"), user="forbidden"),
    order("g", line("x"), user="bot"),
    order(None, line("x"), line("y")),
    order("h", None, line("y", reason="sold out")),
    order("i", line("x"), line("y"), t=None),
]
REASONS = {
    (3, 2): "missing_n",
    (4, 0): "missing_items",
    (5, 0): "missing_items",
    (6, 0): "too_many_rows",
    (7, 0): "forbidden",
    (9, 0): "missing_id",
    (10, 0): "missing_items",
    (10, 1): "sold out",
    (11, 0): "bad_time",
}
ACCEPTED = ["a#0", "a#0#0", "a#1", "b#0"]
COUNTS = {"in": 17, "accepted": 4, "duplicate": 2, "late": 0, "malformed": 9}


@pytest.mark.parametrize("shards", [1, 3])
def test_each_element_is_a_row_and_rows_and_records_add_up(spark: SparkSession, shards: int) -> None:
    tried = Trial(PIPELINE, spark, shards)
    outputs = tried.epoch(RECORDS)
    assert sorted(row["id"] for row in outputs["accepted"]) == ACCEPTED
    assert sorted(row["id"] for row in outputs["lines"]) == ACCEPTED
    letters = {(row["source"][2], row["pos"]): row["reason"] for row in outputs["dead_letter"]}
    assert (letters, len(outputs["dead_letter"])) == (REASONS, len(REASONS))
    assert {json.loads(row["value"])["id"] for row in outputs["dead_letter"] if row["source"][2] == 10} == {"h"}
    assert (tried.last.filtered, tried.last.records) == ({"bot": 1, "gift": 1}, len(RECORDS))
    assert tried.last.counts.model_dump(by_alias=True) == COUNTS
    assert [(row["source"][2], row["pos"], row["reason"]) for row in tried.filtered] == [(3, 1, "gift"), (8, 0, "bot")]
    assert tried.repeat() == outputs
    again = tried.epoch([order("a", line("x"), line("y"), line("z")), order("b", line("x"), line("z"), t=2)])
    assert sorted(row["id"] for row in again["accepted"]) == ["a#2", "b#1"], "a place that nothing took is free"
    closing = tried.epoch([order("z", line("x"), t=1_000)])
    assert (tried.last.records, closing["per_sku"]) == (1, [])
    assert {row["sku"]: (row["lines"], row["n"]) for row in tried.epoch([])["per_sku"]} == {
        "x": (3, 3),
        "y": (1, 2),
        "z": (2, 2),
    }
    late = tried.epoch([order("late", line("x"), line("y"))])
    assert sorted((row["reason"], row["pos"]) for row in late["dead_letter"]) == [("late", 0), ("late", 1)]
    assert (tried.last.records, tried.last.counts.late) == (1, 2)


def test_the_judges_reference_comes_to_the_same_numbers(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    # One of its own would change settings of this process' session.
    monkeypatch.setattr("effectively_once.trial_session", lambda: spark)
    tried = Trial(PIPELINE, spark)
    outputs = tried.epoch(RECORDS)
    values = [base64.b64encode(json.dumps(one).encode()).decode() for one in RECORDS]
    place = {"key": None, "topic": "trial", "partition": 0, "timestamp": 0}
    lines = transform_all(PIPELINE, [{**place, "value": value, "offset": n} for n, value in enumerate(values)])
    given = [Given.of(line) for line in lines]
    declared = describe(PIPELINE)
    assert [*declared["schemas"]["accepted"]["order"]] == ["source", "pos"]
    told = {**declared["declaration"], "pipeline": "t", "window_ms": 100, "lateness_ms": 50}
    declaration = Declaration.of(told)
    assert broken_records(declaration, given) == []
    recorded = EpochRecord.model_validate_json(tried.last.model_dump_json(by_alias=True))
    found = replay(declaration, given, [recorded])
    (numbers,) = found.numbers
    assert (numbers.records, numbers.filtered) == (recorded.records, recorded.filtered)
    assert {name: getattr(numbers, name if name != "in" else "in_") for name in COUNTS} == COUNTS
    due = {key[2:]: dict(one.row) for key, one in found.due["accepted"].items()}
    shown = {(row["source"][2], row["pos"]): row for row in outputs["accepted"]}
    assert due == {key: {name: row[name] for name in due[key]} for key, row in shown.items()}
    assert {key[2:]: one.row["reason"] for key, one in found.due["dead_letter"].items()} == REASONS


def test_bytes_are_ids_as_they_are_without(spark: SparkSession) -> None:
    def by_bytes(frame: DataFrame) -> DataFrame:
        return orders(frame).withColumn("id", f.unhex("id"))

    tried = Trial(replace(PIPELINE, transform=by_bytes), spark, 1)
    assert [row["id"] for row in tried.epoch([order("FF23", line("x"), line("y"))])["accepted"]] == ["ff23#0", "ff23#1"]


WRONG = {
    "items is array<string> and must be an array of structs": lambda frame: orders(frame).withColumn(
        "items", f.array(f.lit("x"))
    ),
    "items, which explode names, is missing": lambda frame: orders(frame).drop("items"),
    "sku is a column of the record and a field of items": lambda frame: orders(frame).withColumn("SKU", f.lit(1)),
    "reason of items is int and must be string": lambda frame: orders(frame).withColumn(
        "items", f.array(f.struct(f.lit("x").alias("sku"), f.lit(1).alias("reason")))
    ),
    "pos is the library's own with explode": lambda frame: orders(frame).withColumn("pos", f.lit(1)),
    "filtered is missing": lambda frame: (
        orders(frame)
        .drop("filtered")
        .withColumn("items", f.array(f.struct(f.lit("x").alias("sku"), f.lit(1).cast("long").alias("n"))))
    ),
    "id is missing": lambda frame: orders(frame).drop("id"),
    "n is missing": lambda frame: orders(frame).withColumn("items", f.array(f.struct(f.lit("x").alias("sku")))),
    "its plan has Generate": lambda frame: orders(frame).withColumn("item", f.explode("items")),
}


@pytest.mark.parametrize("says", WRONG)
def test_a_transform_of_which_no_rows_can_be_made_is_refused(spark: SparkSession, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        rows.check(replace(PIPELINE, transform=WRONG[says]), spark)
    rows.check(PIPELINE, spark)


def test_elements_alone_may_say_why_they_are_refused_or_left_out(spark: SparkSession) -> None:
    pipeline = replace(PIPELINE, transform=lambda frame: orders(frame).drop("reason", "filtered"))
    rows.check(pipeline, spark)
    tried = Trial(pipeline, spark, 1)
    outputs = tried.epoch([order("a", line("x", reason="sold out"), line("y", filtered="gift"), line("z"))])
    assert [row["id"] for row in outputs["accepted"]] == ["a#2"]
    assert ([row["reason"] for row in outputs["dead_letter"]], tried.last.filtered) == (["sold out"], {"gift": 1})
