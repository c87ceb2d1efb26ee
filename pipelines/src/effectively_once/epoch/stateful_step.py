"""The first step of a pipeline with Spark's own state (R7), inside of Spark's plan: dedup, rows kept and returned.

It publishes nothing: the author's operators come next, and what they fail at, or give, nobody knows yet (`kept_rows`).

The plan is made once, and what an epoch pins changes with each batch. So the driver hands it to the tasks of a batch in
a local property of its jobs, and the notes of the tasks come back in an accumulator: rows between the steps belong to
the author's operators.
"""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from effectively_once import long_texts
from effectively_once.epoch import as_shown, epoch, kept_rows
from effectively_once.epoch.epoch_task import EpochTask
from effectively_once.epoch.shard_step import ShardStep
from effectively_once.errors import StepError
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.state import catalog, deltas
from effectively_once.state.lateness import Windows

PROPERTY, BATCH_ID = "effectivelyonce.errand", "streaming.sql.batchId"
Notes = dict[tuple[int, int], str]
"""(epoch, shard) -> what the step told (`ShardStep.summary`). Whichever attempt told it last: all come to the same."""


@dataclass(frozen=True)
class Errand:
    """What the driver tells the first step of a batch.

    Attributes:
        declaration: of the epoch, or what its record says of it.
        generation: of the driver.
        owner: its name.
        named: deltas and spans that live before the epoch.
        decided: None for the declared epoch. For a recorded one, whose batch Spark runs again for its state alone: the
            deltas of its ids, by shard; nothing is published then.

    """

    declaration: Declaration
    generation: int
    owner: str
    named: Mapping[str, Mapping[int, list[deltas.Named]]]
    decided: Mapping[int, Delta] | None = None

    @classmethod
    def silent(cls, record: EpochRecord, generation: int, owner: str) -> Errand:
        """Return the errand for a batch of a recorded epoch."""
        pinned = Declaration(**{name: getattr(record, name) for name in Declaration.model_fields})
        decided = {int(shard): delta for shard, delta in record.deltas.get(catalog.KIND, {}).items()}
        return cls(pinned, generation, owner, {}, decided)

    def encode(self) -> str:
        """Return it as the text that a local property holds."""
        return base64.b85encode(zlib.compress(pickle.dumps(self))).decode()

    @classmethod
    def of(cls, text: str | None, batch_id: str | None) -> Errand:
        """Read the errand of a task, and compare it with the batch that Spark says it belongs to.

        Raises:
            StepError: the task has none, or that of another batch: it runs outside of its epoch.

        """
        found: Errand | None = text and pickle.loads(zlib.decompress(base64.b85decode(text)))  # type: ignore[assignment]  # noqa: S301 - the driver's own
        if found is None or str(found.declaration.batch_id) != batch_id:
            told = "no epoch" if found is None else f"the epoch of batch {found.declaration.batch_id}"
            raise StepError(
                f"rows of batch {batch_id} are asked for with {told}",
                "function of the stateful query",
                "Use its rows in one place only, and not as what a join broadcasts.",
            )
        return found


@dataclass(frozen=True)
class FirstStep:
    """The function that Spark runs on each shard of each batch."""

    pipeline: Pipeline
    settings: PipelineSettings
    tell: Callable[[Notes], None]

    def __call__(self, batches: epoch.Batches) -> Iterator[pa.RecordBatch]:
        """Rows of one shard by id, as `rows.judge` gives them -> its accepted rows."""
        context = TaskContext.get()
        errand = Errand.of(context.getLocalProperty(PROPERTY), context.getLocalProperty(BATCH_ID))
        task = EpochTask(
            self.pipeline, self.settings, errand.declaration, errand.generation, errand.owner, errand.named
        )
        step = ShardStep.of_task(task, "dedup")
        whole = step.whole_input(batches, self.pipeline.digested, nothing=errand.declaration.reads_nothing)
        accepted, note = decide(step, errand, whole)
        if note is not None:
            self.tell({(errand.declaration.epoch, context.partitionId()): note})
        yield from accepted.to_batches()


def decide(step: ShardStep, errand: Errand, batches: epoch.Batches) -> tuple[pa.Table, str | None]:
    """Accepted rows of a shard, and what to tell the driver; a recorded epoch keeps and tells nothing."""
    task = step.task
    whole = judge_lateness(epoch.whole(step, batches), task.windows, task.declaration.watermark_ms)
    if errand.decided is not None:
        return again(step, whole, errand.decided.get(step.shard, Delta())), None
    accepted, dead, _, counts = epoch.decide(step, whole)
    accepted = kept_rows.keep(step, accepted, dead)
    if task.pipeline.ids == "attached":
        step.merge(catalog.KIND, catalog.canonical)
    return accepted, json.dumps({"shard": step.shard, **step.summary(**counts)})


def again(step: ShardStep, whole: pa.Table, delta: Delta) -> pa.Table:
    """Rows that a recorded epoch accepted: of each id that its delta names the first one that was in time.

    Raises:
        ChainError: not all of them are there.

    """
    names = step.task.pipeline.input.names
    if step.task.pipeline.ids != "attached":
        return whole.filter(pc.is_null(whole["reason"])).select(names)
    return long_texts.take(whole.select(names), as_shown.rows_of(step, whole, step.task.declaration.epoch, delta))


def judge_lateness(whole: pa.Table, windows: Windows, watermark_ms: int | None) -> pa.Table:
    """Give rows without a reason the reason `late` where they are. As `rows.late`; times are from 1970 on here."""
    if watermark_ms is None or not whole.num_rows:
        return whole
    times = whole["event_time_ms"].fill_null(0).to_numpy()
    ends = times - np.mod(times, windows.length_ms) + windows.length_ms + windows.lateness_ms
    late = pc.and_(pc.is_null(whole["reason"]), pa.array(ends <= watermark_ms))
    reason = pc.if_else(late, pa.scalar("late"), whole["reason"])
    return whole.set_column(whole.column_names.index("reason"), "reason", reason)


def spark_delay_ms(settings: PipelineSettings) -> int:
    """How far Spark's watermark is behind the chain's: no row that is in time for us is late for any operator."""
    return settings.lateness_ms + settings.window_ms


def spark_watermark_ms(settings: PipelineSettings, watermark_ms: int | None) -> int:
    """What Spark's watermark is where the chain's is this; Spark begins at 1970."""
    return 0 if watermark_ms is None else max(0, watermark_ms - spark_delay_ms(settings))


def notes_of(notes: Notes, number: int) -> tuple[list[int], list[dict[str, Any]]]:
    """Shards that told of an epoch, and what they told."""
    # A copy first: a task that nobody waits for may tell meanwhile.
    mine = sorted((shard, note) for (of, shard), note in dict(notes).items() if of == number)
    return [shard for shard, _ in mine], [json.loads(json.loads(note)["note"]) for _, note in mine]
