"""The epoch that a driver finishes first: the declared one, or the rest of one that left some of its input."""

from __future__ import annotations

from effectively_once.ledger.clock import Clock
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.offsets import Ranges


def due(head: Head) -> Declaration | None:
    """Return what a driver finishes first: the declared epoch, or a repair that has to come; None where neither is."""
    return head.declared or repair(head)


def owes_rows(head: Head) -> bool:
    """Whether the chain has to take rows that were left, or is about to."""
    first = due(head)
    return first is not None and (first.repairs is not None or first.leaves_again)


def repair(head: Head) -> Declaration | None:
    """Return the declaration that has to come next where the last epoch left rows of its input; else None.

    It was finished as it was shown, or it was more than a shard takes at once. What comes next consumes nothing. Its
    watermark is that epoch's, and so is the one before it: what was in time stays in time, and no window closes.
    """
    last = head.tail[-1] if head.tail and head.declared is None else None
    if last is None or not last.leaves_rows:
        return None
    pinned = Declaration(**{name: getattr(last, name) for name in Declaration.model_fields})
    ranges = {
        topic: {partition: (end, end) for partition, (_, end) in partitions.items()}
        for topic, partitions in last.ranges.items()
    }
    return pinned.model_copy(
        update={
            "epoch": last.epoch + 1,
            "repairs": last.epoch,
            "ranges": ranges,
            "previous_watermark_ms": last.watermark_ms,
            "clock": clock_after(last),
            "after": last.left,
            "abandoned": None,
            "came": {shard: it for shard, it in last.came.items() if shard in last.left},
            "reads": (last.reads or last.ranges) if last.left else {},
            # Of an epoch that repaired another, shards without a rest have taken all.
            "shown": {shard: it for shard, it in last.shown.items() if last.repairs is None or shard in last.left},
        }
    )


def input_of(head: Head, epoch: Declaration) -> Ranges:
    """Return the ranges that an epoch reads: its own, or those of the one whose rest it takes.

    Args:
        head: of which the epoch is declared, or comes next.
        epoch: the epoch.

    """
    if epoch.repairs is None:
        return epoch.ranges
    return epoch.reads or head.tail[-1].ranges


def clock_after(last: EpochRecord) -> Clock | None:
    """Return the clock of an epoch that reads nothing new: that of the last one, with what it has shown."""
    return last.clock and last.clock.model_copy(update={"shown": last.shown_by_now})
