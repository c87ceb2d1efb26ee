"""What can be reconciled, and up to where; and differences that must not cancel out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Count, Max, Pipeline, RecordedStep, Sum, ToFiles, ToKafka, Windowed
from effectively_once.errors import ChainError, SettingsError, SourceError
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.job import Job
from effectively_once_jobs import system_usage, user_counts
from effectively_once_jobs.reconcile.difference import Cell, lines, total
from effectively_once_jobs.reconcile.run import countable, held_ranges, require_ended
from tests.settings import pipeline_settings
from tests.unit.ledger.samples import declaration, record_of

COUNTS = user_counts.pipeline.windows[0]
LAYOUT = Layout("user_counts")


def job(pipeline: Pipeline, **settings: Any) -> Job:
    return Job(pipeline, pipeline_settings(**settings))


def windowed(**changes: Any) -> Pipeline:
    return replace(user_counts.pipeline, windows=(replace(COUNTS, **changes),))


def test_the_first_windows_of_a_topic_are_taken() -> None:
    assert countable(job(user_counts.pipeline)) is COUNTS
    files = Windowed("user", {"count": Count()}, ToFiles("files"))
    assert countable(job(replace(user_counts.pipeline, windows=(files, COUNTS)))) is COUNTS
    assert countable(job(windowed(length_ms=600_000))).length_ms == 600_000


@pytest.mark.parametrize(
    "pipeline",
    [
        replace(user_counts.pipeline, windows=()),
        windowed(to=ToFiles("files")),
        windowed(to=ToKafka("some", columns=("user", "count"))),
        windowed(values={"most": Max("crc")}),
        windowed(by=("user", "payload")),
        windowed(by="crc", to=ToKafka("per_sum")),
        windowed(length_ms=600_000, slide_ms=60_000),
    ],
)
def test_what_has_no_counts_in_a_topic_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(SettingsError, match="no windows with counts or sums of whole numbers"):
        countable(job(pipeline))


def test_what_a_recorded_step_gave_is_not_asked_for_again() -> None:
    step = RecordedStep("look_up", lambda rows: rows, pa.schema([pa.field("fraud", pa.int64(), nullable=False)]))
    summed = replace(user_counts.pipeline, recorded=step, windows=(replace(COUNTS, values={"frauds": Sum("fraud")}),))
    with pytest.raises(SettingsError, match="recorded step look_up gave, which a batch run would"):
        countable(job(summed))
    assert countable(job(replace(user_counts.pipeline, recorded=step))) is COUNTS
    with pytest.raises(SettingsError, match="no windows"):
        # It writes to a table.
        countable(job(system_usage.pipeline, database="postgresql://localhost:1/results"))


READ = {"events": {"0": (4, 9), "1": (0, 5)}}


def declared(epoch: int = 3, watermark_ms: int | None = 77) -> Declaration:
    return declaration(epoch, READ).model_copy(update={"watermark_ms": watermark_ms})


def head(last: Declaration | None, now: Declaration | None = None) -> Head:
    tail = () if last is None else (record_of(last),)
    return Head(pipeline="user_counts", generation=1, owner="me", settings={}, tail=tail, declared=now)


def test_a_stream_that_has_stopped_in_order_is_held_up_to_its_last_epoch() -> None:
    last, watermark_ms = require_ended(head(declared()), LAYOUT)
    assert watermark_ms == 77
    assert held_ranges({"0": 0, "1": 0}, last, "events", None) == {"0": (0, 9), "1": (0, 5)}


def test_a_stream_that_is_at_work_or_has_closed_nothing_is_refused() -> None:
    with pytest.raises(ChainError, match="epoch 4 is declared and not recorded: the stream is at work"):
        require_ended(head(declared(), declared(4)), LAYOUT)
    for nothing in (head(None), head(declared(watermark_ms=None))):
        with pytest.raises(ChainError, match="has closed no window yet"):
            require_ended(nothing, LAYOUT)


def test_a_topic_that_lost_its_first_records_needs_a_first_window() -> None:
    last, _ = require_ended(head(declared()), LAYOUT)
    with pytest.raises(SourceError, match=r"lost its records below offsets .*'0': 2.*--since MS"):
        held_ranges({"0": 2, "1": 0}, last, "events", None)
    # Of a partition that lost all that was read of it nothing is read.
    assert held_ranges({"0": 2, "1": 8}, last, "events", 60_000) == {"0": (2, 9), "1": (5, 5)}


def test_too_many_of_one_key_do_not_make_up_for_too_few_of_another() -> None:
    cells = [
        Cell("ann", 0, "count", timely=2, late=1, copies=1, streams={"own": 3, "plain": 4}),
        Cell("bob", 0, "count", timely=2, late=0, copies=0, streams={"own": 1, "plain": 2}),
        Cell("bob", 60, "count", timely=0, late=2, copies=0, streams={"own": 0, "plain": 2}),
    ]
    first, second = lines(cells, "own", refuses_late=True)
    assert (first.stream, first.batch, first.late, first.over, first.under, first.wrong) == (4, 5, 1, 1, 1, 2)
    assert (first.difference, second.difference, second.wrong) == (-1, -2, 0)
    assert total([first, second]).difference == -3
    plain = total(lines(cells, "plain", refuses_late=False))
    assert (plain.over, plain.under, plain.copies, plain.late) == (1, 0, 1, 0)
    assert total([]).wrong == 0
