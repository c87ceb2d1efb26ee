"""No record stops a pipeline by its size: one whose message some topic would not take is a dead letter (R8)."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once import Count, RecordedStep, Sum, ToFiles, ToKafka, ToTable, Trial, Windowed
from effectively_once.epoch.message_bytes import BATCH_BYTES, LETTER_BYTES
from effectively_once.epoch.messages import messages
from effectively_once.errors import StepError
from tests.spark.trials import parsed, record, with_rows

pytestmark = pytest.mark.spark

LEAST = 65_536
KINDS = {
    "duplicated key": ("k" * 40_000, ToKafka("told", key="user", message_bytes_max=LEAST)),
    "control characters": ("\x01" * 12_000, ToKafka("told", message_bytes_max=LEAST)),
    "quotes": ('"\\\n' * 12_000, ToKafka("told", message_bytes_max=LEAST)),
    "as it is": ("v" * 66_000, ToKafka("told", value="user", message_bytes_max=LEAST)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_whose_message_is_too_large_is_a_dead_letter_and_its_neighbours_are_published(
    spark: SparkSession, kind: str
) -> None:
    """Nowhere is it accepted, so another sink does not show it, and its id is free to be sent again."""
    text, to = KINDS[kind]
    trial = Trial(with_rows(ToTable("orders"), to), spark, 1)
    outputs = trial.epoch([record("a"), record("b", user=text), record("c")])
    assert [row["id"] for row in outputs["orders"]] == ["a", "c"]
    assert len(outputs["told"]) == 2
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [("b", "large_told")]
    assert trial.repeat() == outputs
    assert [row["id"] for row in trial.epoch([record("b")])["orders"]] == ["b"]


def test_bytes_take_two_digits_each(spark: SparkSession) -> None:
    def of_bytes(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("user", f.col("user").cast("binary"))

    columns = pa.schema([("user", pa.binary())])
    values = [record("a", user="x" * 32_000), record("b", user="x" * 33_000)]
    for to, refused in (
        (ToKafka("told", message_bytes_max=LEAST), ["b"]),
        (ToKafka("told", value="user", message_bytes_max=LEAST), []),
    ):
        outputs = Trial(with_rows(to, transform=of_bytes, columns=columns), spark, 1).epoch(values)
        assert [row["id"] for row in outputs["dead_letter"]] == refused


def test_an_id_of_bytes_goes_on_as_its_digits(spark: SparkSession) -> None:
    def by_bytes(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("id", f.col("id").cast("binary"))

    trial = Trial(with_rows(ToKafka("told", key="id", message_bytes_max=LEAST), transform=by_bytes), spark, 1)
    outputs = trial.epoch([record("a" * 16_200), record("b" * 16_400)])
    assert [row["id"][:2] for row in outputs["told"]] == ["61"]
    assert [(row["reason"], row["id"][:2]) for row in outputs["dead_letter"]] == [("large_told", "62")]


def test_a_key_too_large_for_the_results_of_its_windows_is_refused_with_its_record(spark: SparkSession) -> None:
    """Its result would be published epochs later, when nothing can be refused any more."""
    counts = Windowed("user", {"n": Count()}, ToKafka("counts", key="user", message_bytes_max=LEAST))
    trial = Trial(with_rows(ToFiles("all"), windows=(counts,), window_ms=100, lateness_ms=0), spark, 1)
    outputs = trial.epoch([record("a", 0, "k" * 40_000), record("b", 0, "k" * 30_000)])
    assert [row["id"] for row in outputs["all"]] == ["b"]
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [("a", "large_counts")]
    trial.epoch([record("c", 10_000)])
    assert [row["n"] for row in trial.epoch([])["counts"]] == [1]


def test_a_key_is_known_to_fit_the_dead_letter_of_a_sum_too(spark: SparkSession) -> None:
    """A sum that 64 bits do not hold tells its key as JSON within JSON, whatever the windows' own sink is."""
    sums = Windowed("user", {"sum": Sum("n")}, ToFiles("sums"))
    trial = Trial(with_rows(ToFiles("all"), windows=(sums,), window_ms=100, lateness_ms=0), spark, 1)
    key = "\x01" * 1_000_000
    outputs = trial.epoch([record("a", 0, key, 2**62), record("b", 0, key, 2**62), record("c", 0, key + key[:60_000])])
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [("c", "large_sums")]
    trial.epoch([record("d", 10_000)])
    (letter,) = trial.epoch([])["dead_letter"]
    assert letter["reason"] == "sum_too_large"
    assert 7_000_000 < len(orjson.dumps(letter)) <= LETTER_BYTES


CHARACTERS = ["a", "é", "😀", '"', "\\", "\n", "\t", "\b", "\f", "\r", "\0", "\x01", "\x1f", "\x7f", "\u2028"]


def test_a_message_is_as_large_as_it_is_taken_for(spark: SparkSession) -> None:
    """Some hundred bytes less at most: those that numbers might take."""
    draw = random.Random(7)
    to = ToKafka("told", key="user", message_bytes_max=LEAST)
    pipeline = with_rows(to)
    for _ in range(12):
        some = draw.sample(CHARACTERS, 3)
        texts = ["".join(draw.choices(some, k=draw.randrange(100, 40_000))) for _ in range(20)]
        outputs = Trial(pipeline, spark, 1).epoch([record(f"i{n}", user=text) for n, text in enumerate(texts)])
        refused = {row["id"]: row["reason"] for row in outputs["dead_letter"]}
        for number, text in enumerate(texts):
            row = {
                "topic": "trial",
                "partition": 0,
                "offset": 0,
                "id": f"i{number}",
                "event_time_ms": 0,
                "user": text,
                "n": 1,
            }
            ((key, value),) = messages(to, pa.Table.from_pylist([row], pipeline.row_schema), 0)
            size = len(key or b"") + len(value) + BATCH_BYTES
            if f"i{number}" in refused:
                assert (size > LEAST - 500, refused[f"i{number}"]) == (True, "large_told")
            else:
                assert size <= LEAST


def test_half_of_a_message_is_what_a_recorded_step_answers(spark: SparkSession) -> None:
    """So that no record is too large for an answer: one that is larger than its half is the step's mistake."""
    answers: list[str] = []

    def city(rows: pa.Table) -> pa.Table:
        return pa.table({"city": pa.array([answers[0]] * rows.num_rows, pa.string())})

    step = RecordedStep("ask", city, pa.schema([("city", pa.string())]))
    trial = Trial(with_rows(ToKafka("told", message_bytes_max=LEAST), recorded=step), spark, 1)
    answers[:] = ["c" * 32_000]
    outputs = trial.epoch([record("a", user="u" * 32_000), record("b", user="u" * 33_000)])
    assert [row["id"] for row in outputs["told"]] == ["a"]
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [("b", "large_told")]
    answers[:] = ["\x01" * 6_000]
    with pytest.raises(StepError, match=r"city take more than the \d+ bytes of sink 'told' in 1 rows"):
        trial.epoch([record("c")])


def test_ordinary_declarations_ask_for_nothing(spark: SparkSession) -> None:
    """Without a Kafka sink of texts no length is looked at."""
    outputs: dict[str, Any] = Trial(with_rows(ToFiles("all")), spark, 1).epoch([record("a", user="\x01" * 3_000_000)])
    assert [row["id"] for row in outputs["all"]] == ["a"]
