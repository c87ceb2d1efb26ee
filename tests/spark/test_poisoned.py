"""A user's file with every poison: the library decides of each record what the judge expects, with the same reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from effectively_once import Trial
from effectively_once_jobs.user_counts import pipeline
from tests.harness.checkers.expectations import (
    AcceptedRows,
    CountRows,
    DeadLetterRows,
    Expectation,
    user_window_of,
    window_of,
)
from tests.harness.checkers.multiset import compare
from tests.harness.checkers.reference import Outcome, replay
from tests.harness.evidence import EpochRecord
from tests.harness.sends import Send, send_of
from tests.harness.subject import Subject, from_file
from tests.harness.workload import poison
from tests.harness.workload.record import Planned, line_of
from tests.harness.workload.seeded import closers, settler

pytestmark = pytest.mark.spark

GOOD, EPOCH_ROWS = 1_600, 600


def epochs_of(subject: Subject) -> Iterator[list[Planned]]:
    """Records of each epoch: the file in some, what closes all of its windows, and then all of it again."""
    records = list(subject.records())
    yield from (records[first : first + EPOCH_ROWS] for first in range(0, len(records), EPOCH_ROWS))
    latest, number = max(one.event_time_ms or 0 for one in records), len(records)
    yield [settler(latest, number)]
    yield from ([one] for one in closers(latest, number + 1, subject.window_ms, subject.lateness_ms))
    yield [replace(one, kind="resent") for one in records]


def test_the_library_and_the_judge_decide_alike_of_every_poison(spark: SparkSession, tmp_path: Path) -> None:
    """Accepted, duplicate, late or refused, and with which bytes and reason: by the judge's own comparison."""
    path = tmp_path / "poison.jsonl"
    poison.write(path, poison.lines(GOOD))
    subject = from_file(path, poison.KEY, poison.TIME)
    trial = Trial(replace(pipeline, window_ms=subject.window_ms, lateness_ms=subject.lateness_ms), spark)
    sends: list[Send] = []
    chain: list[EpochRecord] = []
    observed: dict[str, list[dict[str, Any]]] = {}
    for records in epochs_of(subject):
        sends += [send_of(line_of(one, "trial", 0, at, 0)) for at, one in enumerate(records, len(sends))]
        outputs = trial.epoch([one.value for one in records])
        assert trial.repeat() == outputs
        chain.append(EpochRecord.model_validate_json(trial.last.model_dump_json(by_alias=True)))
        for sink, rows in outputs.items():
            observed.setdefault(sink, []).extend({"sink": sink, "epoch": chain[-1].epoch, **row} for row in rows)
    reference = replay(sends, chain, subject.window_ms, subject.lateness_ms)
    expected: dict[str, Expectation] = {
        "accepted": AcceptedRows(sends, reference.accepted, reference.epochs_of),
        "dead_letter": DeadLetterRows(sends, reference.outcomes, reference.epochs_of),
        "user_counts": CountRows(reference.user_counts, user_window_of),
        "global_counts": CountRows(reference.global_counts, window_of),
    }
    assert set(observed) == set(expected)
    found = {sink: compare(sink, one, iter(observed[sink])) for sink, one in expected.items()}
    assert [line for one in found.values() for line in one.evidence] == []
    assert all(one.output.exact for one in found.values())
    for record, due in zip(chain, reference.numbers, strict=True):
        names = ("in_", "accepted", "duplicate", "late", "malformed")
        assert [getattr(record.counts, name) for name in names] == [getattr(due, name) for name in names]
        assert (record.watermark_ms, record.max_event_time_ms) == (due.watermark_due_ms, due.max_event_time_ms)
    assert reference.outcomes.count(Outcome.MALFORMED) == 2 * subject.numbers.malformed_sent
