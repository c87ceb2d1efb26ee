"""The rules by which head changes (R1, R3, R9), as protocol steps over requests.

There is no check of a generation before a publish anywhere: a check cannot fence. What fences is that a driver can only
publish what it declared, that declaring is a conditional put on the head it last wrote or read, and that only one epoch
is declared at a time. A stale driver can therefore at most complete, identically, the epoch that is declared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from effectively_once.errors import ChainError, StaleDriverError, VersionError
from effectively_once.ledger import checksum
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.clock import Clock
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import FORMAT, READABLE, SEALED, Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.objects import Found, Get, Put, Step, Written, create_once
from effectively_once.ledger.offsets import Offsets, Ranges
from effectively_once.ledger.record import Versioned

TAIL_LIMIT = 64
"""Epoch records in head before the older half moves to a segment: head stays below some 100 KB, a segment is rare."""

ANEW = "Delete the checkpoint folder of this lineage (never head.json): the driver then continues where the chain ends."
"""The way out where Spark planned what does not fit the chain."""

UNKNOWN: Final[Mapping[str, str]] = MappingProxyType({})
"""A runtime that is not told."""


@dataclass(frozen=True, slots=True)
class Held:
    """Head as this driver last wrote it, and the ETag that proves it."""

    head: Head
    etag: str


def take_over(
    layout: Layout,
    owner: str,
    settings: dict[str, Any],
    accept: Callable[[Head], None] = lambda _: None,
    sink_topics: dict[str, str] | None = None,
) -> Step[Held]:
    """Fence every other driver: generation + 1, a new owner. Must come before anything else is read (R1).

    `accept` is shown the head that is there and raises to refuse it: a start that cannot succeed then fences nobody.
    `sink_topics` are the ids that the next start has to find (R10); None leaves those that are there.
    """
    while True:
        found = yield Get(layout.head)
        if isinstance(found, Found):
            old = decoded(found.body, layout.head)
            accept(old)
            new = old.model_copy(
                update={"generation": old.generation + 1, "owner": owner, "sequence": old.sequence + 1}
            )
            if sink_topics is not None:
                new = new.model_copy(update={"sink_topics": sink_topics})
            held = yield from _replace(layout, new, found.etag)
        else:
            new = Head(
                pipeline=layout.pipeline, generation=1, owner=owner, settings=settings, sink_topics=sink_topics or {}
            )
            held = yield from _replace(layout, new, None)
        if held is not None:
            return held
        # Another driver was quicker. Both may go on trying: each round makes one of them the newest.


def declare(
    layout: Layout, held: Held, declaration: Declaration, published: EpochRecord | None, floor: int
) -> Step[Held]:
    """Pin the next epoch and record the one before it, in one conditional put (R3).

    Of one that reads nothing it is stated that nobody gave it up: what to publish is the declaration in head.

    Args:
        layout: names of the objects.
        held: head as this driver holds it.
        declaration: the epoch to declare.
        published: the record of the epoch that is declared now and has been published; None when none is.
        floor: what the floor is raised to; it never sinks (R9).

    Raises:
        StaleDriverError: another driver changed head.
        ChainError: the declaration does not follow the chain.

    """
    head = recorded(held.head, published)
    expected = head.last_recorded + 1
    if head.declared is not None or declaration.epoch != expected:
        raise ChainError(
            f"epoch {declaration.epoch} cannot be declared, the chain is at {head.last_recorded}",
            layout.head,
            "This is a defect of the driver: keep its log and restart it.",
        )
    due = repair(head)
    if declaration.repairs != (due and due.repairs):
        raise ChainError(
            f"epoch {declaration.epoch} cannot be declared, "
            + (f"epoch {due.repairs} has to be repaired first" if due else "there is nothing that it could repair"),
            layout.head,
            "This is a defect of the driver: keep its log and restart it.",
        )
    adjoining(head, declaration.ranges, layout.head, declaration.lost)
    if declaration.reads_nothing and declaration.lost is None:
        declaration = declaration.model_copy(update={"abandoned": False})
    new = head.model_copy(
        update={"declared": declaration, "sequence": held.head.sequence + 1, "floor": max(held.head.floor, floor)},
    )
    return (yield from _commit(layout, held, new))


def record(layout: Layout, held: Held, published: EpochRecord) -> Step[Held]:
    """Record the declared epoch without declaring another: after a recovery, and when a driver stops."""
    new = recorded(held.head, published).model_copy(update={"sequence": held.head.sequence + 1})
    return (yield from _commit(layout, held, new))


def abandon(layout: Layout, held: Held) -> Step[Held]:
    """Pin the declared epoch anew, over nothing: it keeps its number, and the next one begins where it would have.

    Whoever starts from then on publishes and records it as it is pinned now. That nothing of it is visible, and that no
    driver of before is publishing it, is for the caller to see to.

    Raises:
        StaleDriverError: another driver changed head.
        ChainError: no epoch is declared, or it repairs another one.

    """
    declared = held.head.declared
    if declared is None:
        raise ChainError("no epoch is declared", layout.head, "There is nothing to abandon.")
    if declared.repairs is not None and not declared.is_rest:
        raise ChainError(
            f"epoch {declared.epoch} repairs epoch {declared.repairs}, whose missing rows would be lost",
            layout.head,
            "Start the version that declared it.",
        )
    # As it is stated: an older version may have declared what looks like it and closes windows.
    if declared.abandoned:
        return held
    new = held.head.model_copy(update={"declared": nothing(declared), "sequence": held.head.sequence + 1})
    return (yield from _commit(layout, held, new))


def nothing(declared: Declaration) -> Declaration:
    """Return the declaration of an epoch that covers nothing, in the place of another.

    Where that one took the rest of a divided epoch, the rest is due in the next one. Its watermark is that of the epoch
    before: it closes no window, and the next one closes those it would have closed.
    """
    ranges = {
        topic: {partition: (start, start) for partition, (start, _) in partitions.items()}
        for topic, partitions in declared.ranges.items()
    }
    return declared.model_copy(
        update={
            "ranges": ranges,
            "watermark_ms": declared.previous_watermark_ms,
            "shown": {},
            "repairs": None,
            "anew": (),
            "abandoned": True,
        }
    )


def finish_as_shown(
    layout: Layout,
    held: Held,
    shown: dict[str, AsShown],
    wheel_digest: str,
    runtime: Mapping[str, str] = UNKNOWN,
) -> Step[Held]:
    """Pin the declared epoch anew: the shards of `shown` take the rows that they show, and no others.

    What they leave is published under the next number (`repair`). What is decided from then on has names of this
    generation: what others decided before, or are about to, counts no more, but for what is copied to these names
    first. That nobody publishes meanwhile is for the caller to see to; whoever did makes the repeat differ from what is
    visible, which refuses it.

    Raises:
        StaleDriverError: another driver changed head.
        ChainError: no epoch is declared, or it repairs another one itself.

    """
    declared = held.head.declared
    if declared is None or declared.repairs is not None:
        raise ChainError(
            "no epoch is declared that could be finished as it is shown", layout.head, "There is nothing to repair."
        )
    anew = (*declared.anew, held.head.generation)
    version = {"wheel_digest": wheel_digest, "runtime": {**runtime}}
    pinned = declared.model_copy(update={"shown": shown, "anew": anew, **version})
    new = held.head.model_copy(update={"declared": pinned, "sequence": held.head.sequence + 1})
    return (yield from _commit(layout, held, new))


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
            "clock": _clock_after(last),
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


def due(head: Head) -> Declaration | None:
    """Return what a driver finishes first: the declared epoch, or a repair that has to come; None where neither is."""
    return head.declared or repair(head)


def _clock_after(last: EpochRecord) -> Clock | None:
    return last.clock and last.clock.model_copy(update={"shown": last.shown_by_now})


def give_up(layout: Layout, held: Held, loss: Loss, *, lineage: str, wheel_digest: str) -> Step[Held]:
    """Declare an epoch over nothing that begins behind what the topic has lost; the next one adjoins it.

    Its watermark is that of the epoch before: it closes no window. Its lineage has no checkpoint, so that the next
    driver has Spark begin where the chain ends, whatever was planned over the lost offsets.

    Raises:
        StaleDriverError: another driver changed head.
        ChainError: an epoch is declared or to be repaired, or the loss does not begin where the chain ends.

    """
    last = held.head.tail[-1]
    begins = _behind(ends(held.head), loss, layout.head)
    pinned = Declaration(**{name: getattr(last, name) for name in Declaration.model_fields}).model_copy(
        update={
            "epoch": last.epoch + 1,
            "lineage": lineage,
            "batch_id": 0,
            "lost": loss,
            "shown": {},
            "anew": (),
            "repairs": None,
            "reads": {},
            "after": {},
            "came": {},
            "ranges": {topic: {p: (at, at) for p, at in partitions.items()} for topic, partitions in begins.items()},
            "previous_watermark_ms": last.watermark_ms,
            "watermark_ms": last.watermark_ms,
            "runtime": {},
            "wheel_digest": wheel_digest,
            "clock": _clock_after(last),
            "abandoned": True,
        }
    )
    return (yield from declare(layout, held, pinned, None, held.head.floor))


def adjoining(head: Head, ranges: Ranges, where: str, lost: Loss | None = None) -> None:
    """Refuse ranges that leave a gap after the chain, overlap it, or go backwards; a new partition starts at 0 (R3).

    What is `lost` lies between: it has to begin where the chain ends, and the ranges where it ends.

    Raises:
        ChainError: naming topic, partition and offsets.

    """
    due = ends(head) if lost is None else _behind(ends(head), lost, where)
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


def ends(head: Head) -> Offsets:
    """Where the chain ends: the first offset of each partition that no recorded epoch covers."""
    last = head.tail[-1].ranges if head.tail else {}
    return {topic: {p: end for p, (_, end) in partitions.items()} for topic, partitions in last.items()}


def classified(head: Head, ranges: Ranges, where: str) -> str:
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
    adjoining(head, ranges, where)
    return "new"


def same_version(head: Head, wheel_digest: str, where: str, runtime: Mapping[str, str] = UNKNOWN) -> None:
    """Refuse to finish an epoch that another version of the pipeline declared (R3), unless it was abandoned.

    So is one that repairs the last: which rows are of which shard must not change between the two. Of a divided epoch
    any version takes the rest, as its shards know what came to them (`Declaration.came`). The version is the wheel and
    what it runs on; a component that one of both does not name is not compared.

    Raises:
        VersionError: naming both digests, or what else differs.

    """
    declared = due(head)
    if head.declared is None and declared is not None and declared.is_rest:
        # It is declared anew, and each shard sees to it that it has the rows of before.
        return
    if declared is not None and not declared.is_abandoned and declared.wheel_digest != wheel_digest:
        raise VersionError(
            f"epoch {declared.epoch} was declared by wheel {declared.wheel_digest[:12]}, "
            f"this is wheel {wheel_digest[:12]}",
            where,
            "Start the pipeline once with the wheel that declared it and stop it in order; then start this version. "
            "If that wheel cannot finish it: `effectively-once abandon`.",
        )
    if declared is not None and not declared.is_abandoned:
        _same_runtime(declared, runtime, where)


def _same_runtime(declared: Declaration, runtime: Mapping[str, str], where: str) -> None:
    pinned = declared.runtime
    differ = [name for name in sorted({*pinned} & {*runtime}) if pinned[name] != runtime[name]]
    if differ:
        then, now = (", ".join(f"{name} {had[name]}" for name in differ) for had in (pinned, runtime))
        raise VersionError(
            f"epoch {declared.epoch} was declared on {then}, this is {now}",
            where,
            "Start the pipeline once with the image or environment that declared it and stop it in order; then start "
            "this one. If that cannot be had: `effectively-once abandon`.",
        )


def decoded(body: bytes, key: str) -> Head:
    """Parse head. Raises ChainError when it is damaged or of a format that this version does not read."""
    try:
        content, sealed = checksum.opened(body)
        # The format first: what a newer one added must not look like damage, which is answered with an old backup.
        version = Versioned.model_validate(content).format
        if version not in READABLE:
            raise ChainError(
                f"head has format {version}, this version reads {READABLE[0]} to {FORMAT}",
                key,
                "Use a newer version."
                if version > FORMAT
                else "Let the version that wrote it finish, then begin anew under another name.",
            )
        if not sealed and version >= SEALED:
            raise ValueError("its checksum is missing")
        # It is written in the format of this version from now on.
        return Head.model_validate_json(checksum.canonical({**content, "format": FORMAT}))
    except ValueError as wrong:
        raise ChainError(
            f"head cannot be read: {_reason(wrong)}",
            key,
            "Restore the object from the bucket's versions or a backup; do not delete it: "
            "the sinks would be published again.",
        ) from wrong


def recorded(head: Head, published: EpochRecord | None) -> Head:
    """Head with the declared epoch recorded. Raises ChainError when `published` is not the declared one."""
    if published is None:
        return head
    pinned = ("epoch", "ranges", "is_abandoned")
    if head.declared is None or any(getattr(head.declared, name) != getattr(published, name) for name in pinned):
        raise ChainError(
            f"epoch {published.epoch} cannot be recorded, it is not the one declared",
            head.pipeline,
            "This is a defect of the driver: keep its log and restart it.",
        )
    chained = published.model_copy(update={"before": head.tail[-1].checksum if head.tail else None})
    return head.model_copy(
        update={"declared": None, "last_recorded": published.epoch, "tail": (*head.tail, chained)},
    )


def _commit(layout: Layout, held: Held, new: Head) -> Step[Held]:
    new = yield from _flushed(layout, new)
    done = yield from _replace(layout, new, held.etag)
    if done is None:
        found = yield Get(layout.head)
        other = decoded(found.body, layout.head) if isinstance(found, Found) else None
        raise StaleDriverError(
            f"driver {held.head.owner} of generation {held.head.generation} was replaced"
            + (f" by {other.owner} of generation {other.generation}" if other else ": head is gone"),
            layout.head,
            "Nothing to do when a newer driver runs; otherwise start the pipeline again.",
        )
    return done


def _replace(layout: Layout, new: Head, etag: str | None) -> Step[Held | None]:
    """Put head on the condition `etag`; a lost answer is settled by reading whether head is what was sent.

    Returns None when another driver's head was there.
    """
    body = new.encoded()
    while True:
        answer = yield Put(layout.head, body, etag)
        if isinstance(answer, Written):
            return Held(new, answer.etag)
        found = yield Get(layout.head)
        if not isinstance(found, Found):
            if etag is not None:
                return None
            continue
        if found.body == body:
            return Held(new, found.etag)
        if found.etag != etag:
            return None
        # Head is unchanged: the lost put has not taken place. Sent again, at most one of the two can.


def _flushed(layout: Layout, head: Head) -> Step[Head]:
    """Move the older half of a long tail to a create-once segment; a repeat writes the same content.

    An epoch stays whose rest others take: a batch of Spark is compared with its ranges, the watermark goes by its rows.
    """
    begun = max((at for at, record in enumerate(head.tail) if record.repairs is None and not record.reads), default=0)
    half = min(TAIL_LIMIT // 2, begun)
    if len(head.tail) <= TAIL_LIMIT or not half:
        return head
    moved, kept = head.tail[:half], head.tail[half:]
    span = (moved[0].epoch, moved[-1].epoch)
    lines = b"\n".join(record.model_dump_json(by_alias=True).encode() for record in moved)
    yield from create_once(layout.segment(*span), lines)
    return head.model_copy(update={"segments": (*head.segments, span), "tail": kept})


def read(layout: Layout) -> Step[Head]:
    """Head as it is now. Raises ChainError when it is gone."""
    found = yield from there(layout)
    if found is None:
        raise ChainError("head is gone", layout.head, "Restore it; do not start the pipeline without it.")
    return found


def there(layout: Layout) -> Step[Head | None]:
    """Head as it is now, None where no driver ever was or it is gone."""
    found = yield Get(layout.head)
    return decoded(found.body, layout.head) if isinstance(found, Found) else None


def history(layout: Layout, head: Head, since: int = 0) -> Step[list[EpochRecord]]:
    """Epoch records, oldest first: all from epoch `since` on, and what shares a segment with it.

    Raises:
        ChainError: a segment is missing or damaged.

    """
    read_: list[tuple[EpochRecord, str, str]] = []
    for span in head.segments:
        if span[1] < since:
            continue
        key = layout.segment(*span)
        found = yield Get(key)
        if not isinstance(found, Found):
            raise ChainError("a segment of the chain is missing", key, "Restore it from a backup.")
        read_ += [(record, told, key) for record, told in _of_segment(found.body, span, key)]
    records = [*(record for record, _, _ in read_), *head.tail]
    # From the newest on: each record that is known to be right says what the one before it has to be.
    for (record, told, key), after in reversed(list(zip(read_, records[1:], strict=False))):
        # Who wants some epochs alone asks for the segments that hold them: what follows those is then not there.
        if after.epoch == record.epoch + 1 and after.before not in (None, told):
            raise _damaged(f"epoch {record.epoch} is not what epoch {after.epoch} follows", key)
    return records


def _of_segment(body: bytes, span: tuple[int, int], key: str) -> list[tuple[EpochRecord, str]]:
    """Records of a segment, each with its checksum."""
    try:
        lines = body.split(b"\n")
        records = [(EpochRecord.model_validate_json(line), checksum.of(json.loads(line))) for line in lines]
        if [record.epoch for record, _ in records] == list(range(span[0], span[1] + 1)):
            return records
        reason = f"it does not hold epochs {span[0]} to {span[1]}"
    except ValueError as wrong:
        reason = _reason(wrong)
    raise _damaged(reason, key)


def _damaged(reason: str, key: str) -> ChainError:
    return ChainError(f"a segment of the chain is damaged: {reason}", key, "Restore it from a backup.")


def _behind(ends: Offsets, lost: Loss, where: str) -> Offsets:
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


def _reason(wrong: ValueError) -> str:
    return wrong.errors()[0]["msg"] if isinstance(wrong, ValidationError) else str(wrong)[:200]


def _gap(topic: str, partition: str, start: int | None, end: int, where: str) -> ChainError:
    kind = "a missing partition" if start is None else "a gap" if start > end else "an overlap"
    return ChainError(
        f"{kind}: topic {topic} partition {partition} continues at offset {start}, the chain ends at {end}",
        where,
        ANEW,
    )
