"""The lineage of a driver: the checkpoint that Spark goes on with, or begins where the chain ends."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from effectively_once.driver import spark_state
from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.driver.held_chain import HeldChain
from effectively_once.epoch.stateful_step import spark_watermark_ms
from effectively_once.errors import ChainError
from effectively_once.ledger import continuity
from effectively_once.ledger.head import Head
from effectively_once.ledger.offsets import Offsets, Ranges
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sources.kafka import KafkaSource

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Lineage:
    """Batches of one checkpoint.

    Attributes:
        checkpoint: of Spark.
        first: where its batch 0 began, as far as the tail remembers; older batches are never repeated by Spark.
        starting: where Spark begins to read when the checkpoint has no batch.

    """

    checkpoint: Checkpoint
    first: Offsets
    starting: Offsets

    @property
    def name(self) -> str:
        """As the chain has it."""
        return self.checkpoint.lineage

    def ranges(self, batch_id: int) -> Ranges:
        """Return what a batch reads. Raises CheckpointError."""
        return self.checkpoint.ranges(batch_id, self.first)

    def same_clock(self, settings: PipelineSettings, watermark_ms: int | None, batch_id: int) -> None:
        """Refuse a batch for which Spark has another watermark than the chain (R6).

        A repeat too: its ranges are compared with the chain, and Spark reads its watermark from beside them, where no
        checksum is. With another one the operators would close other windows, and nothing else would tell.
        """
        planned = self.checkpoint.read_planned(batch_id).watermark_ms
        ours = spark_watermark_ms(settings, watermark_ms)
        if planned != ours:
            raise ChainError(
                f"Spark's watermark of batch {batch_id} is {planned} ms, by the chain it is {ours} ms",
                f"{self.checkpoint.folder()}/offsets/{batch_id}",
                "Let the function set no watermark of its own. If it sets none, and the batch was declared before: "
                "restore this object from the bucket's versions. Else keep the driver's log: it is a defect.",
            )


def lineage_of(chain: HeldChain, source: KafkaSource, sources: int = 1) -> Lineage:
    """Go on with the last lineage's checkpoint where it fits the chain, else begin one where the chain ends."""
    head = chain.head
    if head.tail:
        last = head.tail[-1]
        kept = Checkpoint(chain.store, chain.layout, last.lineage)
        starting = continuity.ends(head)
        if kept.fits(head, sources):
            return Lineage(kept, _start_of_lineage(head, last.lineage), starting)
        # Partitions that a topic got since begin at their start; Spark wants every partition named.
        first = source.first_offsets()
        starting = {topic: {**parts, **starting.get(topic, {})} for topic, parts in first.items()}
    else:
        starting = source.starts()
    return _new_lineage(chain, starting)


def keep_lineage(chain: HeldChain, source: KafkaSource, settings: PipelineSettings) -> Lineage:
    """Go on with the checkpoint that the chain names last: the state is nowhere else (R7).

    Raises:
        CheckpointError: it is gone, or does not fit the chain.
        SettingsError: the state began with other settings.

    """
    # Again: a driver that was replaced may have written meanwhile.
    found = spark_state.checkpoint_of(chain.store, chain.layout, chain.head, settings.shards)
    if found is None:
        return _new_lineage(chain, source.starts())
    kept, last = found
    # Batch 0 is repeated by Spark only where it is the last one.
    first = _starts(last.ranges)
    return Lineage(kept, first, first)


def _new_lineage(chain: HeldChain, starting: Offsets) -> Lineage:
    name = f"{chain.head.generation:06d}-{chain.owner[:8]}"
    log.info("new lineage", lineage=name, starting=starting)
    return Lineage(Checkpoint(chain.store, chain.layout, name), starting, starting)


def _start_of_lineage(head: Head, lineage: str) -> Offsets:
    """Where batch 0 of a lineage began, as far as the tail remembers; older batches are never repeated by Spark."""
    return _starts(next(record for record in head.tail if record.lineage == lineage).ranges)


def _starts(ranges: Ranges) -> Offsets:
    """Where each of the ranges begins."""
    return {topic: {p: span[0] for p, span in parts.items()} for topic, parts in ranges.items()}
