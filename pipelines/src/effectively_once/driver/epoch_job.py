"""The job of an epoch on Spark: from its rows to what each shard published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from effectively_once import points
from effectively_once.driver.held_chain import HeldChain
from effectively_once.driver.session import measure_batches
from effectively_once.driver.stateful_plan import StatefulPlan
from effectively_once.epoch import between, epoch, refusals, rows
from effectively_once.epoch.epoch_task import EpochTask
from effectively_once.epoch.publishing import open_staged
from effectively_once.epoch.stateful_step import Errand
from effectively_once.epoch.summary import Beside, Summary
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.pipeline.job import Job
from effectively_once.sinks.staged import StagedSink
from effectively_once.state import windows


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt.

    Attributes:
        record: of the epoch.
        repeated: some of it had been published before.
        letters: dead letters by the first word of their reason; no part of the chain.

    """

    record: EpochRecord
    repeated: bool
    letters: Mapping[str, int] = field(default_factory=dict)


class EpochJob:
    """Runs the epochs of one driver, an attempt at a time.

    Attributes:
        plan: of a pipeline with Spark's own state, since its query is made; None for every other.

    """

    def __init__(self, job: Job, chain: HeldChain) -> None:
        self.job, self.settings, self.pipeline, self.chain = job, job.settings, job.pipeline, chain
        self.windows = self.settings.windows
        self.plan: StatefulPlan | None = None
        self._opened: dict[str, StagedSink] = {}

    def attempt(self, declaration: Declaration, frame: DataFrame, *, measured: bool) -> Outcome:
        """One run of an epoch's job, and the totals after it."""
        # Pinned, as all of it: what is repeated may have another number of shards than the settings.
        pipeline, shards = self.pipeline, declaration.shards
        measure_batches(frame.sparkSession, measured=measured)
        named = self.chain.live.list_named()
        task = EpochTask(pipeline, self.settings, declaration, self.chain.head.generation, self.chain.owner, named)
        if self.plan is not None:
            return self._attempt_with_state(self.plan, task, frame)
        values = refusals.keeps_values(pipeline, declaration.tried)
        timely = rows.timely(pipeline, frame, self.windows, declaration.watermark_ms, values=values)
        columns = between.ddl(pipeline)
        # Pinned in a default argument: the closure must not drag the driver object to the executors.
        steps = rows.in_shards(pipeline, timely, shards).mapInArrow(
            lambda batches, task=task: epoch.dedup(task, batches), columns
        )
        if pipeline.windows:
            steps = rows.by_key(steps, windows.KEY, shards).mapInArrow(
                lambda batches, task=task: epoch.aggregate(task, batches), columns
            )
        return self._conclude(declaration, steps.toArrow())

    def _attempt_with_state(self, plan: StatefulPlan, task: EpochTask, frame: DataFrame) -> Outcome:
        """Run the batch of Spark once: first step, the author's operators, results published (`attempt`)."""
        pipeline, pinned = self.pipeline, task.declaration
        assert pipeline.stateful is not None  # noqa: S101 - there is a plan
        plan.hand(Errand(pinned, task.generation, task.owner, task.named))
        # The function got the rows of its task with the plan; results need no state.
        results = replace(task, named={})
        found = (
            rows.by_key(frame, f"`{pipeline.stateful.by}`", pinned.shards)
            .mapInArrow(lambda batches, task=results: epoch.results(task, batches), between.ddl(pipeline))
            .toArrow()
        )
        plan.refuse_dropped(pinned.epoch)
        return self._conclude(pinned, found, plan.notes(pinned.epoch))

    def _conclude(self, pinned: Declaration, found: pa.Table, beside: Beside = ((), ())) -> Outcome:
        """What its tasks told, by rows and beside them; files are made visible here, for all shards at once."""
        pipeline, generation = self.pipeline, self.chain.head.generation
        points.reach("job_done", epoch=pinned.epoch)
        summary = Summary.of(found, beside)
        summary.require_every_offset(pinned, dense=self.settings.dense_offsets)
        summary.publish_files(pipeline, found, pinned, generation, self._files)
        record = summary.record(pinned, generation, pipeline, pinned.shards)
        return Outcome(record, summary.repeated, summary.letters)

    def _files(self, name: str) -> StagedSink:
        """Return a staged sink: what it committed to last it need not read again, as its commits have conditions."""
        if name not in self._opened:
            self._opened[name] = open_staged(self.job, self.chain.store, name)
        return self._opened[name]
