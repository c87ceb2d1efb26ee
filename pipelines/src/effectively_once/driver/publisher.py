"""The epochs of one driver, from declaration to record: repeated where they fail, divided where they are too large."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from functools import partial

import structlog
from pyspark.sql import DataFrame, SparkSession

from effectively_once import points
from effectively_once.driver.declarations import Declarations
from effectively_once.driver.epoch_job import EpochJob, Outcome
from effectively_once.driver.metrics import Metrics
from effectively_once.driver.worker_errors import name_error
from effectively_once.epoch import recorded, refusals, rows
from effectively_once.errors import SourceError, UnreachableError
from effectively_once.ledger import due_epoch
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.head import Head
from effectively_once.ledger.objects import delete_all, run
from effectively_once.progress import announce
from effectively_once.side_by_side import beside
from effectively_once.sources import retained

EPOCH_ATTEMPTS = 3
"""Spark has retried every task by then; a third failure of the whole epoch is not an executor that died."""

log = structlog.get_logger()


class Publisher:
    """Declares epochs, publishes what is declared, and has it recorded.

    Args:
        declarations: what is pinned.
        epoch_job: what an epoch runs on Spark.
        metrics: are told of each epoch.
        stopping: set when no other epoch is to begin.

    """

    def __init__(
        self, declarations: Declarations, epoch_job: EpochJob, metrics: Metrics, stopping: threading.Event
    ) -> None:
        self.declarations, self.epoch_job, self.metrics, self.stopping = declarations, epoch_job, metrics, stopping
        self.chain, self.settings, self.pipeline = epoch_job.chain, epoch_job.settings, epoch_job.pipeline
        self.source = declarations.source
        self._unread: list[str] = []

    def pin(self, declaration: Declaration, seen: Head) -> Declaration:
        """Declare an epoch; with it the one before is recorded."""
        self.chain.declare(declaration)
        points.reach("declared", epoch=declaration.epoch)
        self._unread += self._list_unread(seen)
        assert self.chain.head.declared is not None  # noqa: S101 - it was just put
        return self.chain.head.declared

    def _list_unread(self, seen: Head) -> list[str]:
        """Name what nobody reads any more now that head records an epoch (R9)."""
        keys = self.chain.live.take_out(self.chain.head.floor)
        if seen.tail:
            last = seen.tail[-1]
            steps = refusals.recorded_steps(self.pipeline, last)
            keys += recorded.records_of(steps, self.chain.layout, last.epoch, last.shards, anew=last.decides)
        return keys

    def _collect(self) -> None:
        """Delete what was listed."""
        keys, self._unread = self._unread, []
        run(delete_all(keys), self.chain.store)

    def publish(self, declaration: Declaration, frame: DataFrame, repeat: bool) -> None:
        """Publish the declared epoch. Raises what has a name, and whatever fails an epoch three times."""
        started = time.monotonic()
        facts = {"epoch": declaration.epoch, "generation": self.chain.head.generation, "driver": os.getpid()}
        announce("epoch", state="declared", **facts)
        # Head names none of it by now, so the epoch need not wait for it.
        with beside("collect", self._collect):
            outcome = self._attempt(declaration, frame, repeat)
        record, repeat = outcome.record, repeat or outcome.repeated
        ms = {**record.ms, "total": round((time.monotonic() - started) * 1000)}
        self.chain.published = record = record.model_copy(update={"ms": ms})
        self.chain.live.add(record)
        self.metrics.count_epoch(record, ms, outcome.letters, repeat=repeat)
        line = {**facts, **record.counts.model_dump(by_alias=True), "ms": ms, "repeat": repeat}
        if record.filtered:
            line["filtered"] = record.filtered
        if record.records is not None:
            line["records"] = record.records
        if self.epoch_job.plan is not None:
            # Before Spark commits the batch: it would not repeat the epoch, and nobody else can (R7).
            self.chain.record()
        announce("epoch", state="published", **line)
        points.reach("epoch_published", epoch=declaration.epoch)
        out = {name: sum(rows.rows for rows in shards.values()) for name, shards in record.sinks.items()}
        log.info("epoch published", **line, ranges=record.ranges, out=out, bytes=record.bytes, catalog=record.catalog)

    def _attempt(self, declaration: Declaration, frame: DataFrame, repeat: bool) -> Outcome:
        """Run the epoch's job until it ends well, three times at most; a repeat of it is told of."""
        for attempt in range(EPOCH_ATTEMPTS):
            try:
                # What is divided has large rows, as has what failed for them.
                measured = repeat or attempt > 0 or declaration.repairs is not None
                outcome = self.epoch_job.attempt(declaration, frame, measured=measured)
                return replace(outcome, repeated=outcome.repeated or attempt > 0)
            except Exception as error:
                # First of all: to a driver that was replaced, what the newer one deleted looks like damage.
                self.chain.still_ours()
                named = name_error(error)
                if named is not None and (not named.passing or attempt == EPOCH_ATTEMPTS - 1):
                    raise named from error
                if attempt == EPOCH_ATTEMPTS - 1:
                    self._refuse_lost(error)
                    raise
                log.warning(
                    "epoch failed, repeating it", epoch=declaration.epoch, error=str(error).split("\n")[0][:300]
                )
        raise AssertionError("the last attempt returns or raises")

    def _refuse_lost(self, error: Exception) -> None:
        """Name the failure of an epoch whose input the topic lost meanwhile: Spark has words of its own for it."""
        try:
            retained.check(self.chain.head, self.source.first_offsets())
        except SourceError as why:
            raise why from error
        except UnreachableError:
            return

    def publish_rest(self, frame: DataFrame) -> None:
        """Publish what the epoch has left of its input, part after part, before anything new is declared (R3)."""
        while (due := due_epoch.repair(seen := self.chain.published_head)) is not None:
            if self.stopping.is_set():
                # Whoever starts next goes on with it.
                raise InterruptedError("the pipeline is stopping")
            log.info("an epoch was too large for a shard, taking the rest", epoch=due.epoch, after=due.after)
            self.publish(self.pin(self.declarations.fresh(due), seen), frame, repeat=False)

    def recover(self, declared: Declaration, spark: SparkSession) -> None:
        """Repeat the declared epoch from its pinned ranges: the one way of recovery, also without a checkpoint (R3)."""
        log.info("recovering", epoch=declared.epoch, declared_by=declared.lineage)
        ranges = due_epoch.input_of(self.chain.head, declared)
        frame = rows.judge_each(self.pipeline, partial(self.source.between, spark, ranges))
        self.publish(declared, frame, repeat=True)
        self.chain.record()

    def repair(self, spark: SparkSession) -> None:
        """Publish what the last epoch left of its input: it was finished as it had been shown, or it was divided."""
        while (due := due_epoch.repair(self.chain.head)) is not None:
            log.info("repairing", epoch=due.repairs, by=due.epoch)
            pinned = self.declarations.fresh(due)
            self.chain.declare(pinned)
            self.recover(pinned, spark)
