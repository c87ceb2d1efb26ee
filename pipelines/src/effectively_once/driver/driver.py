"""The driver of one pipeline: takes the chain over, finishes what was declared, turns batches of Spark into epochs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

import structlog
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from effectively_once import points
from effectively_once.driver import control, reshard, stateful_plan
from effectively_once.driver.batches import Batches
from effectively_once.driver.certificate_watch import CertificateWatch
from effectively_once.driver.declarations import Declarations
from effectively_once.driver.epoch_job import EpochJob
from effectively_once.driver.held_chain import HeldChain
from effectively_once.driver.input_watch import InputWatch
from effectively_once.driver.lease_keeper import LeaseKeeper, lease_store
from effectively_once.driver.lineage import keep_lineage, lineage_of
from effectively_once.driver.metrics import Metrics
from effectively_once.driver.outage import outage
from effectively_once.driver.preflight import Preflight
from effectively_once.driver.provenance import provenance_of
from effectively_once.driver.publisher import Publisher
from effectively_once.driver.stateful_plan import StatefulPlan
from effectively_once.driver.unreadable_time import find_unreadable, unreadable_time
from effectively_once.driver.watch import Watch
from effectively_once.driver.worker_errors import name_error
from effectively_once.epoch import rows
from effectively_once.epoch.publishing import open_shards
from effectively_once.errors import PipelineError, StaleDriverError, UnreachableError
from effectively_once.ledger import chain, due_epoch, pinned_version
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.ledger.offsets import Offsets
from effectively_once.pipeline.job import Job
from effectively_once.progress import announce, is_observed
from effectively_once.sources import retained
from effectively_once.sources.kafka import KafkaSource
from effectively_once.sources.unreadable import Unreadable
from effectively_once.store.object_store import S3ObjectStore

LOOK_EVERY_S = 3.0
"""A driver that was replaced learns it from head within this time, whatever its tasks are at."""

log = structlog.get_logger()


class Driver:
    """Runs the epochs of one pipeline. One instance per process; its owner name is random."""

    def __init__(self, job: Job, wheel_digest: str, runtime: Mapping[str, str] = pinned_version.UNKNOWN) -> None:
        settings = job.settings
        self.runtime = {**runtime}
        self.job, self.settings, self.pipeline, self.wheel_digest = job, settings, job.pipeline, wheel_digest
        self.layout = Layout(settings.pipeline)
        self.store = S3ObjectStore(settings.bucket)
        self.source = KafkaSource(settings)
        self.metrics = Metrics(settings.pipeline, standby=settings.standby)
        self.control = control.Control()
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self.busy = threading.Lock()
        self._looked_s = time.monotonic()
        self._trigger: str | None = None
        self._watch = None if settings.idle_ms is None else Watch(settings, self.source)
        self.chain = HeldChain(self.layout, self.store)
        self.epoch_job = EpochJob(job, self.chain)
        declarations = Declarations(job, self.source, self._watch, wheel_digest=wheel_digest, runtime=runtime)
        self.publisher = Publisher(declarations, self.epoch_job, self.metrics, self.stopping)
        self.batches = Batches(self.publisher, self.control, self.stopping)
        self._preflight = Preflight(job, self.layout, self.store, self.source)
        self._topic_ids: dict[str, str] = {}
        self._lease: LeaseKeeper | None = None

    @property
    def head(self) -> Head:
        """Head as this driver last wrote it."""
        return self.chain.head

    def check(self) -> None:
        """Check everything that needs no Spark session, and fence nobody.

        Raises:
            PipelineError: any of the named refusals.

        """
        points.reach("started")
        self.metrics.serve()
        self._topic_ids = self._preflight.surroundings()
        self._preflight.probe()
        warnings = self._preflight.warnings()
        for given in warnings:
            log.warning("start warning", warning=given.name, what=given.what, where=given.where, todo=given.todo)
        self.metrics.show_warnings(given.name for given in warnings)
        self._preflight.find_tried()

    def check_again(self) -> None:
        """Check what may have changed while this driver waited. Raises as `check`."""
        self._topic_ids = self._preflight.surroundings()

    def rehearse(self) -> None:
        """Refuse the head that is there as a take-over would, and fence nobody; its version may be another one's.

        Raises:
            PipelineError: any of the named refusals.

        """
        head = run(chain.there(self.layout), self.store)
        if head is not None:
            due = due_epoch.due(head)
            self._preflight.accept(head, self._topic_ids, due.wheel_digest if due else "")

    def plan_nothing(self, spark: SparkSession) -> DataFrame:
        """Plan an epoch that reads nothing, up to where its rows are brought together and nothing is decided."""
        first = self.source.first_offsets()
        ranges = {topic: {p: (offset, offset) for p, offset in parts.items()} for topic, parts in first.items()}
        frame = rows.judge_each(self.pipeline, partial(self.source.between, spark, ranges))
        timely = rows.timely(self.pipeline, frame, self.epoch_job.windows, watermark_ms=0)
        return rows.in_shards(self.pipeline, timely, self.settings.shards)

    def take_over(self, expect: Callable[[Head], None] = lambda _: None) -> None:
        """Fence other drivers, and compare the chain with source and sinks; `check` comes first.

        Args:
            expect: is shown the head that is there before anything else, and raises to leave it alone.

        Raises:
            PipelineError: any of the named refusals.

        """

        def accept(head: Head) -> None:
            expect(head)
            self._preflight.accept(head, self._topic_ids, self.wheel_digest, self.runtime)
            self._preflight.refuse_lost_input(head)

        of_sinks = {topic: identity for topic, identity in self._topic_ids.items() if topic not in self.settings.topics}
        self.chain.take_over(self.job.bound, accept, of_sinks)
        self.metrics.show_generation(self.head.generation)
        if self.settings.standby:
            self._lease = LeaseKeeper(
                self.layout,
                lease_store(self.settings),
                self.chain.owner,
                self.head.generation,
                self.settings.lease_s,
            )
            self._lease.start()
        runs = provenance_of(self.job) if is_observed() else {}
        announce("driver", state="started", pid=os.getpid(), generation=self.head.generation, **runs)
        points.reach("taken_over")
        self.chain.live = self._preflight.chain(self.chain.held)

    def release(self) -> None:
        """Let a standby take over at once: this driver has ended, in order or not."""
        if self._lease is not None:
            self._lease.release()

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Finish the declared epoch, then start the query; `check` comes first.

        With Spark's own state the query itself finishes it: only there is the state that its results depend on.

        Raises:
            PipelineError: any of the named refusals.

        """
        rows.check(self.pipeline, spark)
        if self.pipeline.stateful is None:
            if self.head.declared is not None:
                self.publisher.recover(self.head.declared, spark)
            self.publisher.repair(spark)
            opened = partial(open_shards, self.job)
            reshard.begin_shards(self.head, self.settings.shards, opened, self.chain.still_ours)
            points.reach("shards_begun")
            # What follows it may be lost, where the declared epoch was not.
            retained.check(self.head, self.source.first_offsets())
        CertificateWatch.of(self.settings, self.metrics).start(self.stopping)
        if self._watch is not None:
            self._watch.start(self.stopping)
        if self.pipeline.stateful is None:
            lineage = lineage_of(self.chain, self.source, len(self.pipeline.transforms))
        else:
            lineage = keep_lineage(self.chain, self.source, self.settings)
        self.batches.lineage = lineage
        InputWatch(self.source, self.metrics, self._reached_offsets).start(self.stopping)
        read = partial(self.source.stream, spark, lineage.starting)
        if self.pipeline.stateful is not None:
            stateful_plan.check(self.pipeline, spark)
            self.epoch_job.plan = StatefulPlan(self.job, spark)
            frame = self.epoch_job.plan.frame(read())
        else:
            # The transform is planned here, once; what differs from epoch to epoch is added by `EpochJob`.
            frame = rows.judge_each(self.pipeline, read)
        writer = frame.writeStream.foreachBatch(self.on_batch)
        writer = writer.option("checkpointLocation", lineage.checkpoint.folder())
        # The first batch waits until the plan knows the query.
        with self.busy:
            try:
                query = writer.queryName(self.settings.pipeline).start()
            except AnalysisException as error:
                if self.pipeline.stateful is None:
                    raise
                raise stateful_plan.spark_refusal(error, self.pipeline.stateful) from error
            if self.epoch_job.plan is not None:
                self.epoch_job.plan.keep_query(query)
        return query

    def name_error(self, error: BaseException) -> PipelineError | None:
        """Name what ended the query; None when it has no name.

        A driver that was replaced may learn it from Spark first, whose log refuses a second writer: head tells.
        """
        try:
            self.chain.still_ours()
        except StaleDriverError as why:
            return why
        except PipelineError as why:
            return self._find_cause(error) or why
        return self._find_cause(error)

    def _find_cause(self, error: BaseException) -> PipelineError | None:
        what = self.failure or error
        # An outage before the loss of state: what could not be read is not gone.
        return (
            name_error(what)
            or outage(what, self.settings.s3_endpoint, self.settings.kafka_bootstrap)
            or (stateful_plan.state_error(what) if self.epoch_job.plan is not None else None)
            or self._unreadable_time(what)
        )

    def _unreadable_time(self, what: BaseException) -> PipelineError | None:
        """Name a record whose Kafka timestamp Spark cannot read, of the declared epoch: no epoch is past it."""
        topic, bootstrap = ", ".join(self.settings.topics), self.settings.kafka_bootstrap

        def find() -> Unreadable | None:
            declared = self.head.declared
            return find_unreadable(bootstrap, {} if declared is None else declared.ranges)

        return unreadable_time(what, topic, bootstrap, find, stateful=self.epoch_job.plan is not None)

    def on_batch(self, frame: DataFrame, batch_id: int) -> None:
        """One batch of Spark (foreachBatch): skipped, repeated or declared and published as the next epoch."""
        try:
            with self.busy:
                if self.stopping.is_set():
                    raise InterruptedError("the pipeline is stopping")
                self.batches.batch(frame, batch_id)
        except BaseException as error:
            self.failure = error
            raise

    def stop(self) -> None:
        """Let the running epoch end, refuse the next, and record what is published."""
        self.stopping.set()
        with self.busy:
            if self.chain.published is not None and not isinstance(self.failure, StaleDriverError):
                points.reach("stopping")
                self.chain.record()
        announce("driver", state="stopped", pid=os.getpid(), generation=self.head.generation)

    def watch_triggers(self, query: StreamingQuery) -> None:
        """Tell when another trigger of the query has ended, with a batch or without.

        Of triggers without one Spark keeps the first, and then one in ten seconds. It tells its listeners of the same
        ones, but for the first.
        """
        progress = query.lastProgress
        if progress is not None and progress.timestamp != self._trigger:
            self._trigger = progress.timestamp
            self.metrics.show_life()

    def find_finished_drain(self) -> control.Wish | None:
        """Return the wish to drain once everything up to its ends is published, else None."""
        try:
            wish = self.control.wish(self.store, self.layout)
        except UnreachableError as error:
            # Whether the pipeline can go on without its store shows at the next epoch.
            log.warning("what operators wish cannot be read", error=str(error))
            return None
        self.metrics.show_paused(wish.state is control.State.PAUSED)
        published = self.chain.published
        last = published.ranges if published else control.reached_ranges(self.head)
        # What an epoch has left of its input is below the ends too.
        left = published.leaves_rows if published else due_epoch.owes_rows(self.head)
        return wish if control.is_drained(last, wish) and not left else None

    def find_replacement(self) -> StaleDriverError | None:
        """Return why this driver has to end because another took the chain over, as far as head tells by now."""
        # A test that holds one of its processes wants to see what becomes of that one alone.
        if time.monotonic() - self._looked_s < LOOK_EVERY_S or points.held():
            return None
        self._looked_s = time.monotonic()
        try:
            self.chain.still_ours()
        except StaleDriverError as why:
            return why
        except PipelineError as error:
            # The next epoch shows whether it can go on.
            log.warning("head cannot be read", error=str(error))
        return None

    def _reached_offsets(self) -> Offsets:
        """Where the chain ends in its input, with what is published; before its first epoch, where that will begin."""
        published = self.chain.published
        last = published.ranges if published is not None else control.reached_ranges(self.head)
        reached = {topic: {p: end for p, (_, end) in parts.items()} for topic, parts in last.items()}
        return reached or self.batches.lineage.starting
