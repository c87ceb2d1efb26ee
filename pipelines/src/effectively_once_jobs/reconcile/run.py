"""One reconciliation, from settings to files: what is read, up to where, and what cannot be reconciled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from effectively_once.driver.main import SPARK_CONF
from effectively_once.driver.session import session
from effectively_once.errors import ChainError, SettingsError, SourceError
from effectively_once.ledger import chain
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.sinks import ToKafka
from effectively_once.pipeline.windows import Windowed
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore
from effectively_once_jobs.reconcile import cells
from effectively_once_jobs.reconcile.difference import Cell, Line, lines

CELLS, REPORT = "cells.jsonl", "report.json"


def reconcile(job: Job, to: Path, beside: Sequence[str] = (), since_ms: int | None = None) -> list[Line]:
    """Hold a stream against a batch run of its declaration, and write every cell and line to a folder.

    Args:
        job: the stream.
        to: the folder.
        beside: topics of other jobs that count the same windows of the same topic and refuse nothing as late.
        since_ms: leave out windows that begin before; needed where the topic has lost its first records.

    Returns:
        A line a window that the stream has closed.

    Raises:
        SettingsError: the declaration has nothing that can be reconciled.
        SourceError: the topic has lost records that a window needs, or is another one.
        ChainError: the stream is at work, or has not closed a window yet.

    """
    pipeline, settings, each = job.pipeline, job.settings, countable(job)
    source, layout = KafkaSource(settings), Layout(settings.pipeline)
    head = run(chain.read(layout), S3ObjectStore(settings.bucket))
    last, watermark_ms = require_ended(head, layout)
    source.same_topic(head, source.topic_ids())
    ranges = {settings.topic: held_ranges(source.first_offsets()[settings.topic], last, settings.topic, since_ms)}
    windows = each.windows(settings.windows)
    own = f"{settings.pipeline}.{each.to.name}"
    topics = [own, *beside]

    def count_cells(spark: SparkSession) -> list[Cell]:
        late = cells.find_late(source.read_retained(spark, f"{settings.pipeline}.{DEAD_LETTER}"), settings.topic)
        batch = cells.count_records(pipeline, each, windows, source.between(spark, ranges), late)
        streams = [cells.add_up_published(each, source.read_retained(spark, name), n) for n, name in enumerate(topics)]
        frame = cells.keep_closed(cells.cells(each, batch, streams), windows, watermark_ms, since_ms)
        return [_cell(row.asDict(), topics) for row in frame.toLocalIterator()]

    spark = session(settings, json.loads(os.environ.get(SPARK_CONF, "{}")))
    try:
        found = count_cells(spark)
    finally:
        spark.stop()
    told = {name: lines(found, name, refuses_late=name == own) for name in topics}
    _write(
        to,
        found,
        {
            "pipeline": settings.pipeline,
            "ranges": ranges,
            "closed_by_ms": watermark_ms,
            "since_ms": since_ms,
            "left_out": [name for name in each.values if name not in cells.names_of_sums(each)],
            "lines": {
                name: [{**asdict(one), "difference": one.difference} for one in mine] for name, mine in told.items()
            },
        },
    )
    return told[own]


def countable(job: Job) -> Windowed:
    """Return what of a declaration can be reconciled: the first windows with counts or sums that go to a topic.

    Raises:
        SettingsError: there are none, or what they add up comes from a recorded step.

    """
    pipeline, where = job.pipeline, f"declaration of {job.settings.pipeline}"
    if len(job.settings.topics) > 1:
        raise SettingsError("a batch run reads one topic", where, "Reconcile pipelines that read one topic.")
    for each in pipeline.windows:
        if not isinstance(each.to, ToKafka) or not cells.names_of_sums(each) or not _whole(each, each.to):
            continue
        if not _in_whole_numbers(pipeline, each) or len(each.windows(job.settings.windows).holding(0)) > 1:
            continue
        columns = {*each.aggregated}
        if pipeline.recorded is not None and columns & {*pipeline.recorded.adds.names}:
            raise SettingsError(
                f"{each.name} adds up what the recorded step {pipeline.recorded.name} gave, which a batch run would "
                "have to ask for again",
                where,
                "It cannot be reconciled.",
            )
        return each
    raise SettingsError(
        "no windows with counts or sums of whole numbers, by one column of text, that do not overlap, go to a topic",
        where,
        "Only such can be reconciled: Windowed(..., values={...: Count()}, to=ToKafka(...)).",
    )


def require_ended(head: Head, layout: Layout) -> tuple[EpochRecord, int]:
    """Return the last epoch of a stream that has stopped in order, and the watermark that it closed windows by.

    Raises:
        ChainError: it is at work, or has not closed a window yet.

    """
    if head.declared is not None:
        raise ChainError(
            f"epoch {head.declared.epoch} is declared and not recorded: the stream is at work, or broke off",
            layout.head,
            "Stop it first (`effectively-once drain`); what broke off, start again before.",
        )
    if not head.tail or head.tail[-1].watermark_ms is None:
        raise ChainError("the stream has closed no window yet", layout.head, "Let it read more first.")
    return head.tail[-1], head.tail[-1].watermark_ms


def _whole(each: Windowed, to: ToKafka) -> bool:
    return to.value is None and (not to.columns or {*to.columns} >= {*each.names})


def _in_whole_numbers(pipeline: Pipeline, each: Windowed) -> bool:
    """Whether Spark's own sums are exact, and a text is the key."""
    kinds = {column.name: column.type for column in pipeline.row_schema}
    sums = [kinds[name] for of in cells.names_of_sums(each) for name in each.values[of].columns]
    return [kinds[name] for name in each.keys] == [pa.string()] and not {*sums} - {pa.int64(), pa.int32()}


def held_ranges(
    first: Mapping[str, int], last: EpochRecord, topic: str, since_ms: int | None
) -> dict[str, tuple[int, int]]:
    """From the first offsets that the topic still holds to where the stream has come, and no further.

    What it has not read yet it has neither counted nor refused.

    Raises:
        SourceError: the topic has lost records that a window needs.

    """
    if since_ms is None and any(first.values()):
        raise SourceError(
            f"the topic has lost its records below offsets {dict(first)}",
            f"topic {topic}",
            "Name the first window of which all records are there: --since MS.",
        )
    ends = {at: span[1] for at, span in last.ranges.get(topic, {}).items()}
    return {at: (min(first.get(at, 0), end), end) for at, end in ends.items()}


def _cell(row: dict[str, Any], topics: Sequence[str]) -> Cell:
    said = {name: row.pop(f"s{number}") for number, name in enumerate(topics)}
    return Cell(**row, streams=said)


def _write(to: Path, found: Sequence[Cell], report: Mapping[str, Any]) -> None:
    to.mkdir(parents=True, exist_ok=True)
    content = [json.dumps(row) for row in [*map(asdict, found), {"end": True, "rows": len(found)}]]
    (to / CELLS).write_text("\n".join(content) + "\n")
    (to / REPORT).write_text(json.dumps(report, indent=1) + "\n")
