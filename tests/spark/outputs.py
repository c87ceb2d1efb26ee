"""What a pipeline published, read as a late consumer would, and compared with a plain recomputation."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from effectively_once.ledger.epoch_record import Counts
from effectively_once.ledger.epoch_record import EpochRecord as Recorded
from effectively_once.sinks.manifest import ManifestSink
from tests.harness.checkers.reference import Outcome, Reference, replay
from tests.harness.evidence import EpochRecord
from tests.spark.pipeline import PARTITIONS, Pipeline


def rows(pipeline: Pipeline, sink: str) -> list[dict[str, Any]]:
    """Read a Kafka sink to its end with a read_committed consumer."""
    return [json.loads(value or b"null") for _, _, value in pipeline.raw(f"{pipeline.name}.{sink}")]


def published_epochs(pipeline: Pipeline, *, running: bool) -> list[EpochRecord]:
    """Epochs of the chain, dense and without gap or overlap; while a driver is `running` the declared one too."""
    # One head: a driver that has repeated an epoch records it while this looks.
    head = pipeline.head()
    recorded, declared = pipeline.epochs(head), head.declared
    if running and declared is not None:
        told = declared.model_dump() | {"generation": 0, "counts": Counts(), "max_event_time_ms": None}
        recorded.append(Recorded(**told, sinks={}, deltas={}))
    epochs = [EpochRecord.model_validate_json(record.model_dump_json(by_alias=True)) for record in recorded]
    assert [record.epoch for record in epochs] == list(range(len(epochs))), "the chain has a hole"
    ends: Counter[int] = Counter()
    for record in epochs:
        for partition, (start, end) in record.ranges[pipeline.topic].items():
            assert start == ends[partition], f"epoch {record.epoch} partition {partition}: gap or overlap at {start}"
            ends[partition] = end
    assert +ends == Counter(send.partition for send in pipeline.sends), "the chain has not read every record"
    return epochs


def assert_exact(pipeline: Pipeline, *, running: bool = False) -> Counter[str]:
    """Assert that the chain is dense and contiguous and every output is exactly what it must be; return the counts.

    While a driver is `running`, the last epoch is published and still declared: it is recorded with the next one.
    """
    epochs = published_epochs(pipeline, running=running)
    assert {send.partition for send in pipeline.sends} == set(range(PARTITIONS)), "a partition was sent nothing"
    # What a pipeline's settings do not say is as its job has it.
    own = {"window_ms": 60_000, "lateness_ms": 120_000} | pipeline.settings
    expected = replay(pipeline.sends, epochs, int(str(own["window_ms"])), int(str(own["lateness_ms"])))
    due = [numbers.watermark_due_ms for numbers in expected.numbers]
    assert [record.watermark_ms for record in epochs] == due
    accepted = rows(pipeline, "accepted")
    assert Counter(_accepted(row) for row in accepted) == Counter(
        _accepted(
            {
                **json.loads(pipeline.sends[index].value or ""),
                "source": pipeline.sends[index].coordinate,
                "epoch": expected.epochs_of[index],
            }
        )
        for index in expected.accepted.values()
    )
    assert_letters(pipeline, expected)
    counts = rows(pipeline, "user_counts")
    assert Counter((row["user"], row["window_start_ms"], row["count"], row["epoch"]) for row in counts) == Counter(
        (*key, *value) for key, value in expected.user_counts.items()
    )
    manifests = ManifestSink(pipeline.store, pipeline.layout, "global_counts")
    totals = [(row["window_start_ms"], row["count"], epoch) for epoch, _, row in manifests.rows(len(epochs) - 1)]
    assert Counter(totals) == Counter((start, *value) for start, value in expected.global_counts.items())
    return Counter(Outcome(outcome).name for outcome in expected.outcomes)


def assert_letters(pipeline: Pipeline, expected: Reference) -> None:
    """Assert that what was refused is in the dead letters, once and with its reason."""
    refused = {Outcome.LATE: "late", Outcome.MALFORMED: None}
    assert Counter((tuple(row["source"]), row["reason"]) for row in rows(pipeline, "dead_letter")) == Counter(
        (send.coordinate, refused[Outcome(outcome)] or send.reason)
        for send, outcome in zip(pipeline.sends, expected.outcomes, strict=True)
        if outcome in refused
    )


def _accepted(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("id", "user", "event_time_ms", "payload", "crc", "epoch")
    return (*(row[name] for name in names), *row["source"])
