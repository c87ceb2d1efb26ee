"""That epochs cover the input without a gap and without an overlap (R3)."""

from __future__ import annotations

from effectively_once.errors import ChainError
from effectively_once.ledger.head import Head
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.offsets import Offsets, Ranges

ANEW = "Delete the checkpoint folder of this lineage (never head.json): the driver then continues where the chain ends."
"""The way out where Spark planned what does not fit the chain."""


def ends(head: Head) -> Offsets:
    """Where the chain ends: the first offset of each partition that no recorded epoch covers."""
    last = head.tail[-1].ranges if head.tail else {}
    return {topic: {p: end for p, (_, end) in partitions.items()} for topic, partitions in last.items()}


def require_adjoining(head: Head, ranges: Ranges, where: str, lost: Loss | None = None) -> None:
    """Refuse ranges that leave a gap after the chain, overlap it, or go backwards; a new partition starts at 0 (R3).

    What is `lost` lies between: it has to begin where the chain ends, and the ranges where it ends.

    Raises:
        ChainError: naming topic, partition and offsets.

    """
    due = ends(head) if lost is None else behind(ends(head), lost, where)
    for topic, begins in due.items():
        for partition, end in begins.items():
            start = ranges.get(topic, {}).get(partition, (None, None))[0]
            if start != end:
                raise _gap(topic, partition, start, end, where)
    for topic, partitions in ranges.items():
        for partition, (start, end) in partitions.items():
            if head.tail and partition not in due.get(topic, {}) and start != 0:
                raise _gap(topic, partition, start, 0, where)
            if not 0 <= start <= end:
                raise ChainError(
                    f"no range of offsets: topic {topic} partition {partition} from {start} to {end}", where, ANEW
                )


def classify(head: Head, ranges: Ranges, where: str) -> str:
    """How a batch of Spark relates to the chain: `recorded` (skip it), `declared` (repeat it) or `new`.

    Raises:
        ChainError: neither; a guess would lose or double records.

    """
    if head.declared is not None and head.declared.ranges == ranges:
        return "declared"
    # A batch without records may have the ranges of an epoch that was given up: it closes the windows of that one. Or
    # those of one that took what another had left, which is no batch of Spark.
    if any(record.ranges == ranges and not record.abandoned and record.repairs is None for record in head.tail):
        return "recorded"
    if head.declared is not None:
        raise ChainError(
            f"a batch does not repeat epoch {head.declared.epoch}, which is declared and not recorded",
            where,
            "Restart the driver: recovery publishes the declared epoch first.",
        )
    require_adjoining(head, ranges, where)
    return "new"


def behind(ends: Offsets, lost: Loss, where: str) -> Offsets:
    """Where an epoch has to begin after what is lost."""
    moved = {topic: dict(partitions) for topic, partitions in ends.items()}
    for topic, partitions in lost.offsets.items():
        for partition, (start, end) in partitions.items():
            due = ends.get(topic, {}).get(partition, 0)
            if start != due or end <= start:
                raise ChainError(
                    f"offsets {start} to {end} of topic {topic} partition {partition} are no loss, the chain ends at "
                    f"{due}",
                    where,
                    "Look at the pipeline again; nothing was changed.",
                )
            moved.setdefault(topic, {})[partition] = end
    return moved


def _gap(topic: str, partition: str, start: int | None, end: int, where: str) -> ChainError:
    kind = "a missing partition" if start is None else "a gap" if start > end else "an overlap"
    return ChainError(
        f"{kind}: topic {topic} partition {partition} continues at offset {start}, the chain ends at {end}",
        where,
        ANEW,
    )
