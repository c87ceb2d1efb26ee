"""What the chain still needs of its input, held against what the topic still has. No client is imported here."""

from __future__ import annotations

from collections.abc import Callable

from effectively_once.errors import SourceError
from effectively_once.ledger import continuity, due_epoch
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.head import Head
from effectively_once.ledger.offsets import Offsets, Ranges

SHARES = (0.75, 0.5, 0.25)
"""Of the retention, that the oldest record which is not covered may have used up; the largest first."""

Partitions = dict[str, int]
"""Partition -> offset, of the one topic that is read."""
Spans = dict[str, tuple[int, int]]
"""Partition -> [start, end), likewise."""

ACCEPT = (
    "If the topic cannot be put back to where the chain ends: stop every driver, run `effectively-once accept-loss`. "
    "It records what is lost, and the next epoch begins behind it; what producers still have can be sent again then."
)
RESTORE = (
    "Put the topic back to where these offsets begin, or restore chain and sinks from one backup, or give the pipeline "
    "another name to begin anew."
)


def find_gone(head: Head, first: Offsets) -> Ranges:
    """Return [start, end) of what the chain needs next, by topic and partition, and the topic does not hold any more.

    Of a declared epoch that is what it reads. Otherwise it is all that no epoch covers; a partition that the chain does
    not know begins at 0.

    Args:
        head: the chain.
        first: earliest offset of every partition.

    """
    due = _unfinished_ranges(head)
    if due is not None:
        starts = {topic: {p: a for p, (a, b) in spans.items() if a < b} for topic, spans in due.items()}
    elif head.declared is not None:
        starts = {topic: {p: end for p, (_, end) in spans.items()} for topic, spans in head.declared.ranges.items()}
    else:
        starts = continuity.ends(head)
    if due is None and starts:
        starts = {topic: {**dict.fromkeys(first.get(topic, {}), 0), **parts} for topic, parts in starts.items()}
    found = {
        topic: {p: (start, first[topic][p]) for p, start in sorted(parts.items()) if start < first[topic].get(p, 0)}
        for topic, parts in starts.items()
        if topic in first
    }
    return {topic: parts for topic, parts in found.items() if parts}


def check(head: Head, first: Offsets) -> None:
    """Refuse to go on with a chain whose next epoch cannot be read.

    Raises:
        SourceError: naming what is gone, and the ways out.

    """
    lost = find_gone(head, first)
    if lost:
        raise refusal(lost, due_epoch.due(head))


def refusal(lost: Ranges, due: Declaration | None = None) -> SourceError:
    """Say what is gone; `due` is the epoch that has to be finished first, None where there is none."""
    count = sum(end - start for parts in lost.values() for start, end in parts.values())
    what = f"{count:,} offsets are gone from the topic before they were read, {name_lost(lost)}"
    where = f"topic {', '.join(lost)}"
    if due is not None and due.leaves_again:
        return SourceError(f"{what}; epoch {due.epoch + 1} has to read them for a divided one", where, RESTORE)
    if due is None or due.is_abandoned:
        return SourceError(what, where, ACCEPT)
    if due.repairs is not None:
        return SourceError(f"{what}; epoch {due.epoch} has to read them to repair epoch {due.repairs}", where, RESTORE)
    return SourceError(
        f"{what}; epoch {due.epoch} is declared over them and cannot be finished",
        where,
        f"{ACCEPT} That is refused where a sink shows rows of the epoch. Then: {RESTORE}",
    )


def name_lost(lost: Ranges) -> str:
    """Name what is gone, a partition after the other."""
    return ", ".join(
        f"of partition {partition} {start} to {end - 1}"
        for parts in lost.values()
        for partition, (start, end) in parts.items()
    )


def share_left(at: Partitions, last: Partitions, younger: Callable[[float], Partitions]) -> float:
    """Return which share of its retention the oldest record has left that is not covered: 1, at most 0.75, 0.5 or 0.25.

    Args:
        at: where the chain ends.
        last: offset that the next record of each partition will get.
        younger: given a share, the first offset of each partition whose record has used up less of the retention.

    """
    behind = {partition: at.get(partition, 0) for partition, end in last.items() if at.get(partition, 0) < end}
    for share in SHARES if behind else ():
        young = younger(share)
        if any(offset < young[partition] for partition, offset in behind.items()):
            return 1 - share
    return 1.0


def list_unread(at: Partitions, first: Partitions, ends: Partitions) -> Spans:
    """Return of each partition the offsets that the topic has and that are not covered; of some there are none.

    Args:
        at: where the chain ends.
        first: earliest offset of each partition.
        ends: where a reader of committed records ends; what an open transaction holds back cannot be read yet.

    """
    starts = {partition: max(at.get(partition, 0), first.get(partition, 0)) for partition in ends}
    return {partition: (starts[partition], max(starts[partition], end)) for partition, end in ends.items()}


def _unfinished_ranges(head: Head) -> Ranges | None:
    """Ranges that have to be read once more before anything else; None where there are none."""
    due = due_epoch.due(head)
    if due is None or due.is_abandoned:
        # An abandoned one reads nothing, but the next one takes what it was to.
        return due.reads if due is not None and due.leaves_again else None
    return due_epoch.input_of(head, due)
