"""The driver of one pipeline: takes the chain over, finishes what was declared, turns batches of Spark into epochs."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import structlog
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from effectively_once import points
from effectively_once.driver import clock, control, spark_state, stateful_plan
from effectively_once.driver.checkpoints import WAYS_OUT, Checkpoint
from effectively_once.driver.input_watch import InputWatch
from effectively_once.driver.metrics import Metrics
from effectively_once.driver.outage import outage
from effectively_once.driver.preflight import Preflight
from effectively_once.driver.provenance import provenance_of
from effectively_once.driver.session import measure_batches
from effectively_once.driver.stateful_plan import StatefulPlan
from effectively_once.driver.table_watch import TableWatch
from effectively_once.driver.unreadable_time import find_unreadable, unreadable_time
from effectively_once.driver.watch import Watch
from effectively_once.driver.worker_errors import named_error
from effectively_once.epoch import epoch, recorded, refusals, rows
from effectively_once.epoch.shard_step import EpochTask
from effectively_once.epoch.stateful_step import Errand, spark_watermark_ms
from effectively_once.epoch.summary import Beside, Summary
from effectively_once.errors import ChainError, PipelineError, SourceError, StaleDriverError, UnreachableError
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.ledger.records import SHARD_BYTES, Declaration, EpochRecord, Head, Offsets, Ranges
from effectively_once.pipeline.job import Job
from effectively_once.progress import announce, is_observed
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sources import retained
from effectively_once.sources.kafka import KafkaSource
from effectively_once.sources.unreadable import Unreadable
from effectively_once.state import windows
from effectively_once.state.lateness import Windows
from effectively_once.state.live import LiveDeltas
from effectively_once.store.object_store import S3ObjectStore

EPOCH_ATTEMPTS = 3
"""Spark has retried every task by then; a third failure of the whole epoch is not an executor that died."""

LOOK_EVERY_S = 3.0
"""A driver that was replaced learns it from head within this time, whatever its tasks are at."""

log = structlog.get_logger()


class Driver:
    """Runs the epochs of one pipeline. One instance per process; its owner name is random."""

    def __init__(self, job: Job, wheel_digest: str, runtime: Mapping[str, str] = chain.UNKNOWN) -> None:
        settings = job.settings
        self.runtime = {**runtime}
        self.job, self.settings, self.pipeline, self.wheel_digest = job, settings, job.pipeline, wheel_digest
        self.owner = uuid.uuid4().hex
        self.layout = Layout(settings.pipeline)
        self.store = S3ObjectStore(settings.bucket)
        self.source = KafkaSource(settings)
        self.windows = Windows(settings.window_ms, settings.lateness_ms)
        self.metrics = Metrics(settings.pipeline)
        self.control = control.Control()
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self.busy = threading.Lock()
        self._looked_s = time.monotonic()
        self._held: chain.Held
        self._published: EpochRecord | None = None
        self._live: LiveDeltas
        self._checkpoint: Checkpoint
        self._first: Offsets
        self._plan: StatefulPlan | None = None
        self._tables = TableWatch(job)
        self._watch = None if settings.idle_ms is None else Watch(settings, self.source)

    @property
    def head(self) -> Head:
        """Head as this driver last wrote it."""
        return self._held.head

    def check(self) -> None:
        """Fence other drivers and check everything that needs no Spark session.

        Raises:
            PipelineError: any of the named refusals.

        """
        points.reach("started")
        self.metrics.serve()
        preflight = Preflight(self.job, self.layout, self.store, self.source)
        topic_ids = preflight.surroundings()
        preflight.probe()
        warnings = preflight.warnings()
        for given in warnings:
            log.warning("start warning", warning=given.name, what=given.what, where=given.where, todo=given.todo)
        self.metrics.warned(given.name for given in warnings)

        def accept(head: Head) -> None:
            preflight.accept(head, topic_ids, self.wheel_digest, self.runtime)
            preflight.retained(head)

        of_sinks = {topic: identity for topic, identity in topic_ids.items() if topic != self.settings.topic}
        preflight.tried()
        self._held = run(chain.take_over(self.layout, self.owner, self.job.bound, accept, of_sinks), self.store)
        runs = provenance_of(self.job) if is_observed() else {}
        announce("driver", state="started", pid=os.getpid(), generation=self.head.generation, **runs)
        points.reach("taken_over")
        self._live = preflight.chain(self._held)

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Finish the declared epoch, then start the query; `check` comes first.

        With Spark's own state the query itself finishes it: only there is the state that its results depend on.

        Raises:
            PipelineError: any of the named refusals.

        """
        rows.check(self.pipeline, spark)
        if self.pipeline.stateful is None:
            if self.head.declared is not None:
                self._recover(self.head.declared, spark)
            self._repair(spark)
            # What follows it may be lost, where the declared epoch was not.
            retained.check(self.head, {self.settings.topic: self.source.first_offsets()})
        InputWatch(self.source, self.metrics, self._reached).start(self.stopping)
        if self._watch is not None:
            self._watch.start(self.stopping)
        starting, folder = self._lineage() if self.pipeline.stateful is None else self._kept_lineage()
        frame = self.source.stream(spark, starting)
        if self.pipeline.stateful is not None:
            stateful_plan.check(self.pipeline, spark)
            self._plan = StatefulPlan(self.job, spark)
            frame = self._plan.frame(frame)
        else:
            # The transform is planned here, once; what differs from epoch to epoch is added in `_attempt`.
            frame = rows.judged(self.pipeline, frame)
        writer = frame.writeStream.foreachBatch(self.on_batch).option("checkpointLocation", folder)
        # The first batch waits until the plan knows the query.
        with self.busy:
            try:
                query = writer.queryName(self.settings.pipeline).start()
            except AnalysisException as error:
                if self.pipeline.stateful is None:
                    raise
                raise stateful_plan.refused_by_spark(error, self.pipeline.stateful) from error
            if self._plan is not None:
                self._plan.started(query)
        return query

    def named(self, error: BaseException) -> PipelineError | None:
        """Name what ended the query; None when it has no name.

        A driver that was replaced may learn it from Spark first, whose log refuses a second writer: head tells.
        """
        try:
            self._still_ours()
        except StaleDriverError as why:
            return why
        except PipelineError as why:
            return self._told(error) or why
        return self._told(error)

    def _told(self, error: BaseException) -> PipelineError | None:
        what = self.failure or error
        # An outage before the loss of state: what could not be read is not gone.
        return (
            named_error(what)
            or outage(what, self.settings.s3_endpoint, self.settings.kafka_bootstrap)
            or (stateful_plan.state_error(what) if self._plan is not None else None)
            or self._unreadable_time(what)
        )

    def _unreadable_time(self, what: BaseException) -> PipelineError | None:
        """Name a record whose Kafka timestamp Spark cannot read, of the declared epoch: no epoch is past it."""
        topic, bootstrap = self.settings.topic, self.settings.kafka_bootstrap

        def find() -> Unreadable | None:
            declared = self.head.declared
            return find_unreadable(bootstrap, {} if declared is None else declared.ranges)

        return unreadable_time(what, topic, bootstrap, find, stateful=self._plan is not None)

    def on_batch(self, frame: DataFrame, batch_id: int) -> None:
        """One batch of Spark (foreachBatch): skipped, repeated or declared and published as the next epoch."""
        try:
            with self.busy:
                if self.stopping.is_set():
                    raise InterruptedError("the pipeline is stopping")
                self._batch(frame, batch_id)
        except BaseException as error:
            self.failure = error
            raise

    def stop(self) -> None:
        """Let the running epoch end, refuse the next, and record what is published."""
        self.stopping.set()
        with self.busy:
            if self._published is not None and not isinstance(self.failure, StaleDriverError):
                points.reach("stopping")
                self._record()
        announce("driver", state="stopped", pid=os.getpid(), generation=self.head.generation)

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        points.reach("batch_planned", batch=batch_id)
        ranges = self._checkpoint.ranges(batch_id, self._first)
        last = self._published
        if last is not None and last.ranges == ranges and last.repairs is None:
            log.info("batch skipped", batch=batch_id, epoch=last.epoch)
            return
        # What is published is as good as recorded for the relation of a batch to the chain: declaring records it.
        seen = chain.recorded(self.head, last)
        where = f"batch {batch_id} of lineage {self._checkpoint.lineage}"
        match self._classified(seen, ranges, where):
            case "recorded" if self._plan is not None:
                record = next(record for record in seen.tail if record.ranges == ranges)
                self._same_clock(record.watermark_ms, batch_id)
                self._for_its_state(record, frame)
                return
            case "recorded":
                log.info("batch skipped", batch=batch_id, ranges=ranges)
                return
            case "declared":
                declaration, repeat = self.head.declared, True
                assert declaration is not None  # noqa: S101 - classified said so
                if self._plan is not None:
                    self._same_clock(declaration.watermark_ms, batch_id)
            case _:
                self._allowed(seen)
                if self._plan is not None:
                    self._same_clock(seen.watermark_ms, batch_id)
                declaration, repeat = self._declare(seen, ranges, batch_id), False
        self._publish(declaration, frame, repeat)
        self._publish_rest(frame)

    def _classified(self, seen: Head, ranges: Ranges, where: str) -> str:
        try:
            return chain.classified(seen, ranges, where)
        except ChainError as wrong:
            if self._plan is None:
                raise
            # Without its checkpoint such a pipeline could not go on.
            raise ChainError(wrong.what, wrong.where, WAYS_OUT) from wrong

    def _same_clock(self, watermark_ms: int | None, batch_id: int) -> None:
        """Refuse a batch for which Spark has another watermark than the chain (R6).

        A repeat too: its ranges are compared with the chain, and Spark reads its watermark from beside them, where no
        checksum is. With another one the operators would close other windows, and nothing else would tell.
        """
        planned = self._checkpoint.planned(batch_id).watermark_ms
        ours = spark_watermark_ms(self.settings, watermark_ms)
        if planned != ours:
            raise ChainError(
                f"Spark's watermark of batch {batch_id} is {planned} ms, by the chain it is {ours} ms",
                f"{self._checkpoint.folder()}/offsets/{batch_id}",
                "Let the function set no watermark of its own. If it sets none, and the batch was declared before: "
                "restore this object from the bucket's versions. Else keep the driver's log: it is a defect.",
            )

    def _for_its_state(self, record: EpochRecord, frame: DataFrame) -> None:
        """Run the batch of a recorded epoch once more: Spark did not commit it, and lacks its state."""
        assert self._plan is not None  # noqa: S101 - the caller looked
        log.info("batch repeated for its state", batch=record.batch_id, epoch=record.epoch)
        self._plan.hand(Errand.silent(record, self.head.generation, self.owner))
        try:
            frame.write.format("noop").mode("append").save()
        except Exception as error:
            self._still_ours()
            named = named_error(error)
            if named is None:
                raise
            raise named from error

    def drained(self) -> control.Wish | None:
        """Return the wish to drain once everything up to its ends is published, else None."""
        try:
            wish = self.control.wish(self.store, self.layout)
        except UnreachableError as error:
            # Whether the pipeline can go on without its store shows at the next epoch.
            log.warning("what operators wish cannot be read", error=str(error))
            return None
        published = self._published
        last = published.ranges if published else control.reached(self.head)
        # What an epoch has left of its input is below the ends too.
        left = published.leaves_rows if published else _owes_rows(self.head)
        return wish if control.drained(last, wish) and not left else None

    def replaced(self) -> StaleDriverError | None:
        """Return why this driver has to end because another took the chain over, as far as head tells by now."""
        # A test that holds one of its processes wants to see what becomes of that one alone.
        if time.monotonic() - self._looked_s < LOOK_EVERY_S or points.held():
            return None
        self._looked_s = time.monotonic()
        try:
            self._still_ours()
        except StaleDriverError as why:
            return why
        except PipelineError as error:
            # The next epoch shows whether it can go on.
            log.warning("head cannot be read", error=str(error))
        return None

    def _allowed(self, seen: Head) -> None:
        """Wait while the pipeline is paused; no new epoch once it is to stop or is drained."""
        wish = self.control.hold(self.store, self.layout, self.stopping)
        if self.stopping.is_set() or control.drained(control.reached(seen), wish):
            raise InterruptedError("the pipeline is stopping")

    def _declare(self, seen: Head, ranges: Ranges, batch_id: int) -> Declaration:
        now = self.source.topic_ids()
        self.source.same_topic(seen, now)
        self.source.within(ranges)
        pinned = None if self._watch is None else self._watch.pin(seen, ranges)
        declaration = Declaration(
            epoch=seen.last_recorded + 1,
            lineage=self._checkpoint.lineage,
            batch_id=batch_id,
            ranges=ranges,
            topic_ids=now,
            watermark_ms=seen.watermark_ms if pinned is None else clock.watermark_ms(seen, pinned, ranges),
            previous_watermark_ms=seen.tail[-1].watermark_ms if seen.tail else None,
            shards=self.settings.shards,
            wheel_digest=self.wheel_digest,
            runtime=self.runtime,
            settings_digest=self.job.digest,
            clock=pinned,
            # Again: somebody may have added constraints since.
            tried=self._tables.tried(),
            bytes_max=self._bytes_max,
        )
        return self._pin(declaration, seen)

    def _fresh(self, due: Declaration) -> Declaration:
        """Return what comes next as this driver declares it: the rest of a divided epoch is declared like a new one."""
        if not due.is_rest:
            return due
        own = {"wheel_digest": self.wheel_digest, "runtime": self.runtime, "settings_digest": self.job.digest}
        return due.model_copy(update={**own, "tried": self._tables.tried(), "bytes_max": self._bytes_max})

    @property
    def _bytes_max(self) -> int | None:
        """What a declaration pins of the bound of a shard."""
        return None if self.settings.shard_bytes_max == SHARD_BYTES else self.settings.shard_bytes_max

    def _pin(self, declaration: Declaration, seen: Head) -> Declaration:
        """Declare an epoch; with it the one before is recorded."""
        floor = self._live.floor(declaration)
        self._held = run(chain.declare(self.layout, self._held, declaration, self._published, floor), self.store)
        self._published = None
        points.reach("declared", epoch=declaration.epoch)
        self._collect(seen)
        assert self.head.declared is not None  # noqa: S101 - it was just put
        return self.head.declared

    def _publish_rest(self, frame: DataFrame) -> None:
        """Publish what the epoch has left of its input, part after part, before anything new is declared (R3)."""
        while (due := chain.repair(seen := chain.recorded(self.head, self._published))) is not None:
            if self.stopping.is_set():
                # Whoever starts next goes on with it.
                raise InterruptedError("the pipeline is stopping")
            log.info("an epoch was too large for a shard, taking the rest", epoch=due.epoch, after=due.after)
            self._publish(self._pin(self._fresh(due), seen), frame, repeat=False)

    def _collect(self, seen: Head) -> None:
        """Delete what nobody reads any more now that head records an epoch (R9)."""
        self._live.collect(self.store, self.head.floor)
        if seen.tail:
            last, shards = seen.tail[-1], self.settings.shards
            steps = refusals.recorded_steps(self.pipeline, last)
            recorded.collect(steps, self.store, self.layout, last.epoch, shards, anew=last.decides)

    def _publish(self, declaration: Declaration, frame: DataFrame, repeat: bool) -> None:
        started = time.monotonic()
        facts = {"epoch": declaration.epoch, "generation": self.head.generation, "driver": os.getpid()}
        announce("epoch", state="declared", **facts)
        for attempt in range(EPOCH_ATTEMPTS):
            try:
                # What is divided has large rows, as has what failed for them.
                measured = repeat or declaration.repairs is not None
                record, repeated = self._attempt(declaration, frame, measured=measured)
                break
            except Exception as error:
                # First of all: to a driver that was replaced, what the newer one deleted looks like damage.
                self._still_ours()
                named = named_error(error)
                if named is not None and (not named.passing or attempt == EPOCH_ATTEMPTS - 1):
                    raise named from error
                if attempt == EPOCH_ATTEMPTS - 1:
                    self._refuse_lost(error)
                    raise
                log.warning(
                    "epoch failed, repeating it", epoch=declaration.epoch, error=str(error).split("\n")[0][:300]
                )
                repeat = True
        repeat = repeat or repeated
        ms = {**record.ms, "total": round((time.monotonic() - started) * 1000)}
        self._published = record = record.model_copy(update={"ms": ms})
        self._live.add(record)
        self.metrics.published(record, ms, repeat=repeat)
        line = {**facts, **record.counts.model_dump(by_alias=True), "ms": ms, "repeat": repeat}
        if self._plan is not None:
            # Before Spark commits the batch: it would not repeat the epoch, and nobody else can (R7).
            self._record()
        announce("epoch", state="published", **line)
        points.reach("epoch_published", epoch=declaration.epoch)
        out = {name: sum(rows.rows for rows in shards.values()) for name, shards in record.sinks.items()}
        log.info("epoch published", **line, ranges=record.ranges, out=out, bytes=record.bytes, catalog=record.catalog)

    def _refuse_lost(self, error: Exception) -> None:
        """Name the failure of an epoch whose input the topic lost meanwhile: Spark has words of its own for it."""
        try:
            retained.check(self.head, {self.settings.topic: self.source.first_offsets()})
        except SourceError as why:
            raise why from error
        except UnreachableError:
            return

    def _reached(self) -> dict[str, int]:
        """Where the chain ends in the topic, with what is published."""
        published = self._published
        last = published.ranges if published is not None else control.reached(self.head)
        return {partition: end for partition, (_, end) in last.get(self.settings.topic, {}).items()}

    def _attempt(self, declaration: Declaration, frame: DataFrame, *, measured: bool) -> tuple[EpochRecord, bool]:
        """One run of an epoch's job, and the totals after it; whether some of it had been published before."""
        pipeline, shards = self.pipeline, self.settings.shards
        measure_batches(frame.sparkSession, measured=measured)
        named = self._live.named()
        task = EpochTask(pipeline, self.settings, declaration, self.head.generation, self.owner, named)
        if self._plan is not None:
            return self._attempt_with_state(self._plan, task, frame)
        values = refusals.keeps_values(pipeline, declaration.tried)
        timely = rows.timely(pipeline, frame, self.windows, declaration.watermark_ms, values=values)
        columns = epoch.ddl(epoch.between(pipeline))
        # Pinned in a default argument: the closure must not drag the driver object to the executors.
        steps = rows.in_shards(pipeline, timely, shards).mapInArrow(
            lambda batches, task=task: epoch.dedup(task, batches), columns
        )
        if pipeline.windows:
            steps = rows.by_key(steps, windows.KEY, shards).mapInArrow(
                lambda batches, task=task: epoch.aggregate(task, batches), columns
            )
        return self._concluded(declaration, steps.toArrow())

    def _attempt_with_state(self, plan: StatefulPlan, task: EpochTask, frame: DataFrame) -> tuple[EpochRecord, bool]:
        """Run the batch of Spark once: first step, the author's operators, results published (`_attempt`)."""
        pipeline, pinned, shards = self.pipeline, task.declaration, self.settings.shards
        assert pipeline.stateful is not None  # noqa: S101 - there is a plan
        plan.hand(Errand(pinned, self.head.generation, self.owner, task.named))
        # The function got the rows of its task with the plan; results need no state.
        results = replace(task, named={})
        found = (
            rows.by_key(frame, f"`{pipeline.stateful.by}`", shards)
            .mapInArrow(lambda batches, task=results: epoch.results(task, batches), epoch.ddl(epoch.between(pipeline)))
            .toArrow()
        )
        plan.refuse_dropped(pinned.epoch)
        return self._concluded(pinned, found, plan.notes(pinned.epoch))

    def _concluded(self, pinned: Declaration, found: pa.Table, beside: Beside = ((), ())) -> tuple[EpochRecord, bool]:
        """What its tasks told, by rows and beside them; files are made visible here, for all shards at once."""
        pipeline, generation = self.pipeline, self.head.generation
        points.reach("job_done", epoch=pinned.epoch)
        summary = Summary.of(found, beside)
        summary.require_every_offset(pinned, dense=self.settings.dense_offsets)
        summary.publish_files(pipeline, found, pinned, generation, self._files)
        return summary.record(pinned, generation, pipeline, self.settings.shards), summary.repeated

    def _files(self, name: str) -> ManifestSink:
        return ManifestSink(self.store, self.layout, name)

    def _recover(self, declared: Declaration, spark: SparkSession) -> None:
        """Repeat the declared epoch from its pinned ranges: the one way of recovery, also without a checkpoint (R3)."""
        log.info("recovering", epoch=declared.epoch, declared_by=declared.lineage)
        frame = rows.judged(self.pipeline, self.source.between(spark, chain.input_of(self.head, declared)))
        self._publish(declared, frame, repeat=True)
        self._record()

    def _repair(self, spark: SparkSession) -> None:
        """Publish what the last epoch left of its input: it was finished as it had been shown, or it was divided."""
        while (due := chain.repair(self.head)) is not None:
            log.info("repairing", epoch=due.repairs, by=due.epoch)
            pinned = self._fresh(due)
            self._held = run(chain.declare(self.layout, self._held, pinned, None, self._live.floor(due)), self.store)
            self._recover(pinned, spark)

    def _record(self) -> None:
        """Record what is published without declaring another epoch."""
        assert self._published is not None  # noqa: S101 - _publish set it
        self._held = run(chain.record(self.layout, self._held, self._published), self.store)
        self._published = None

    def _lineage(self) -> tuple[Offsets, str]:
        """Go on with the last lineage's checkpoint where it fits the chain, else begin one where the chain ends."""
        head = self.head
        if head.tail:
            last = head.tail[-1]
            kept = Checkpoint(self.store, self.layout, last.lineage)
            starting = chain.ends(head)
            if kept.fits(head):
                self._checkpoint, self._first = kept, _start_of_lineage(head, last.lineage)
                return starting, kept.folder()
            # Partitions that the topic got since begin at their start; Spark wants every partition named.
            topic = self.settings.topic
            starting[topic] = {**self.source.first_offsets(), **starting.get(topic, {})}
        else:
            starting = {self.settings.topic: self.source.first_offsets()}
        return self._new_lineage(starting)

    def _kept_lineage(self) -> tuple[Offsets, str]:
        """Go on with the checkpoint that the chain names last: the state is nowhere else (R7).

        Raises:
            CheckpointError: it is gone, or does not fit the chain.
            SettingsError: the state began with other settings.

        """
        # Again: a driver that was replaced may have written meanwhile.
        found = spark_state.checkpoint_of(self.store, self.layout, self.head, self.settings.shards)
        if found is None:
            return self._new_lineage({self.settings.topic: self.source.first_offsets()})
        kept, last = found
        # Batch 0 is repeated by Spark only where it is the last one.
        self._checkpoint, self._first = kept, _starts(last.ranges)
        return self._first, kept.folder()

    def _new_lineage(self, starting: Offsets) -> tuple[Offsets, str]:
        head = self.head
        lineage = f"{head.generation:06d}-{self.owner[:8]}"
        log.info("new lineage", lineage=lineage, starting=starting)
        self._checkpoint, self._first = Checkpoint(self.store, self.layout, lineage), starting
        return starting, self._checkpoint.folder()

    def _still_ours(self) -> None:
        """After a failed epoch: a driver that was replaced stops with its name for it instead of trying again."""
        now = run(chain.read(self.layout), self.store)
        if now.owner != self.owner:
            raise StaleDriverError(
                f"driver {self.owner} was replaced by {now.owner} of generation {now.generation}",
                self.layout.head,
                "Nothing to do when a newer driver runs; otherwise start the pipeline again.",
            )


def one_line(error: BaseException) -> str:
    """Say what an operator is told: the named error's own line, else the first line of whatever happened."""
    if isinstance(error, PipelineError):
        return f"{type(error).__name__}: {error}"
    return f"the query failed: {str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}"


def _owes_rows(head: Head) -> bool:
    """Whether the chain has to take rows that were left, or is about to."""
    due = chain.due(head)
    return due is not None and (due.repairs is not None or due.leaves_again)


def _start_of_lineage(head: Head, lineage: str) -> Offsets:
    """Where batch 0 of a lineage began, as far as the tail remembers; older batches are never repeated by Spark."""
    return _starts(next(record for record in head.tail if record.lineage == lineage).ranges)


def _starts(ranges: Ranges) -> Offsets:
    """Where each of the ranges begins."""
    return {topic: {p: span[0] for p, span in parts.items()} for topic, parts in ranges.items()}
