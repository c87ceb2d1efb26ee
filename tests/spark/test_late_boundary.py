"""The bound of allowed lateness on the jobs themselves: one millisecond before it, at it, one after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from effectively_once import KafkaRecord, Pipeline, RecordedStep, Trial
from effectively_once_jobs import card_ledger, system_usage, user_counts

pytestmark = [pytest.mark.spark, pytest.mark.core]

START_MS = 1_750_000_020_000
"""Where some window begins."""
Record = Callable[..., KafkaRecord]


def an_event(id_: str, time_ms: int) -> KafkaRecord:
    value = {"id": id_, "user": "u", "event_time_ms": time_ms, "payload": "p", "crc": 7}
    return KafkaRecord(json.dumps(value), timestamp_ms=time_ms)


def a_transaction(id_: str, time_ms: int) -> KafkaRecord:
    value = {"id": id_, "card": "card-1", "amount_cents": 5, "event_time_ms": time_ms}
    return KafkaRecord(json.dumps(value), timestamp_ms=time_ms)


def answered(pipeline: Pipeline) -> Pipeline:
    """The declaration with a step that asks nobody: what is late is decided before it."""
    step = pipeline.recorded
    assert step is not None

    def nothing(rows: pa.Table) -> pa.Table:
        columns = [pa.repeat(pa.scalar(0).cast(field.type), rows.num_rows) for field in step.adds]
        return pa.table(columns, schema=step.adds)

    return replace(pipeline, recorded=RecordedStep(step.name, nothing, step.adds))


JOBS: list[tuple[str, Pipeline, Record, str]] = [
    ("user_counts", user_counts.pipeline, an_event, "accepted"),
    ("system_usage", answered(system_usage.pipeline), an_event, "counted"),
    ("card_ledger", answered(card_ledger.keyed), a_transaction, "charges"),
]


@pytest.mark.parametrize("distance_ms", [-1, 0, 1])
@pytest.mark.parametrize(("pipeline", "record", "sink"), [job[1:] for job in JOBS], ids=[job[0] for job in JOBS])
def test_a_window_takes_records_until_the_watermark_is_at_its_end_and_the_lateness(
    spark: SparkSession, pipeline: Pipeline, record: Record, sink: str, distance_ms: int
) -> None:
    length, lateness = pipeline.window_ms, pipeline.lateness_ms
    assert START_MS % length == 0
    bound = START_MS + length + lateness
    trial = Trial(pipeline, spark)
    trial.epoch([record("known", START_MS), record("setter", bound + distance_ms)])
    assert trial.watermark_ms == bound + distance_ms
    sent = {
        "first of the window": record("first", START_MS),
        "last of it": record("last", START_MS + length - 1),
        "first of the next": record("next", START_MS + length),
        "a copy": record("known", START_MS),
        "a copy of what opened the epoch": record("first", START_MS),
        "no record": KafkaRecord("{"),
    }
    found = trial.epoch([*sent.values()])
    late = distance_ms >= 0
    reasons = [row["reason"] for row in found["dead_letter"]]
    assert sorted(reasons) == sorted([*(["late"] * 4 if late else []), "not_json"])
    accepted = {row["id"] for row in found[sink]}
    assert accepted == {"next"} if late else accepted == {"first", "last", "next"}
    counts = trial.last.counts
    assert (counts.read, counts.accepted, counts.duplicate, counts.late, counts.malformed) == (
        (6, 1, 0, 4, 1) if late else (6, 3, 2, 0, 1)
    )
    assert counts.read == counts.accepted + counts.late + counts.duplicate + counts.malformed
    for name in (each.name for each in pipeline.windows):
        # Once it takes no more records, and not before, a window is final, and published.
        starts = [row["window_start_ms"] for row in found[name]]
        assert starts == ([START_MS] if late else [])
