"""Batches of Spark: each is skipped, repeated, or becomes the next epoch."""

from __future__ import annotations

import threading

import structlog
from pyspark.sql import DataFrame

from effectively_once import points
from effectively_once.driver import control
from effectively_once.driver.checkpoints import WAYS_OUT
from effectively_once.driver.lineage import Lineage
from effectively_once.driver.publisher import Publisher
from effectively_once.driver.worker_errors import name_error
from effectively_once.epoch.stateful_step import Errand
from effectively_once.errors import ChainError
from effectively_once.ledger import continuity
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.offsets import Ranges

log = structlog.get_logger()


class Batches:
    """Relates the batches of one query to the chain.

    Args:
        publisher: of epochs.
        wishes: what operators ask of drivers.
        stopping: set when no other epoch is to begin.

    Attributes:
        lineage: of the query; there since its start.

    """

    lineage: Lineage

    def __init__(self, publisher: Publisher, wishes: control.Control, stopping: threading.Event) -> None:
        self.publisher, self.control, self.stopping = publisher, wishes, stopping
        self.chain, self.settings, self.epoch_job = publisher.chain, publisher.settings, publisher.epoch_job

    def batch(self, frame: DataFrame, batch_id: int) -> None:
        """Skip a batch that is recorded, else publish it.

        Raises:
            PipelineError: any of the named refusals.
            InterruptedError: it would be a new epoch, and none is to begin.

        """
        points.reach("batch_planned", batch=batch_id)
        ranges = self.lineage.ranges(batch_id)
        last = self.chain.published
        if last is not None and last.ranges == ranges and last.repairs is None:
            log.info("batch skipped", batch=batch_id, epoch=last.epoch)
            return
        seen = self.chain.published_head
        where = f"batch {batch_id} of lineage {self.lineage.name}"
        match self._classify(seen, ranges, where):
            case "recorded" if self.epoch_job.plan is not None:
                record = next(record for record in seen.tail if record.ranges == ranges)
                self._same_clock(record.watermark_ms, batch_id)
                self._for_its_state(record, frame)
                return
            case "recorded":
                log.info("batch skipped", batch=batch_id, ranges=ranges)
                return
            case "declared":
                declaration, repeat = self.chain.head.declared, True
                assert declaration is not None  # noqa: S101 - classified said so
                if self.epoch_job.plan is not None:
                    self._same_clock(declaration.watermark_ms, batch_id)
            case _:
                self._wait_until_allowed(seen)
                if self.epoch_job.plan is not None:
                    self._same_clock(seen.watermark_ms, batch_id)
                new = self.publisher.declarations.of_batch(seen, ranges, self.lineage.name, batch_id)
                declaration, repeat = self.publisher.pin(new, seen), False
        self.publisher.publish(declaration, frame, repeat)
        self.publisher.publish_rest(frame)

    def _classify(self, seen: Head, ranges: Ranges, where: str) -> str:
        try:
            return continuity.classify(seen, ranges, where)
        except ChainError as wrong:
            if self.epoch_job.plan is None:
                raise
            # Without its checkpoint such a pipeline could not go on.
            raise ChainError(wrong.what, wrong.where, WAYS_OUT) from wrong

    def _same_clock(self, watermark_ms: int | None, batch_id: int) -> None:
        self.lineage.same_clock(self.settings, watermark_ms, batch_id)

    def _for_its_state(self, record: EpochRecord, frame: DataFrame) -> None:
        """Run the batch of a recorded epoch once more: Spark did not commit it, and lacks its state."""
        assert self.epoch_job.plan is not None  # noqa: S101 - the caller looked
        log.info("batch repeated for its state", batch=record.batch_id, epoch=record.epoch)
        self.epoch_job.plan.hand(Errand.silent(record, self.chain.head.generation, self.chain.owner))
        try:
            frame.write.format("noop").mode("append").save()
        except Exception as error:
            self.chain.still_ours()
            named = name_error(error)
            if named is None:
                raise
            raise named from error

    def _wait_until_allowed(self, seen: Head) -> None:
        """Wait while the pipeline is paused; no new epoch once it is to stop or is drained."""
        wish = self.control.hold(self.chain.store, self.chain.layout, self.stopping)
        if self.stopping.is_set() or control.is_drained(control.reached_ranges(seen), wish):
            raise InterruptedError("the pipeline is stopping")
