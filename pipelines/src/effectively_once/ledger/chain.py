"""The rules by which a driver changes head (R1, R3, R9), as protocol steps over requests.

There is no check of a generation before a publish anywhere: a check cannot fence. What fences is that a driver can only
publish what it declared, that declaring is a conditional put on the head it last wrote or read, and that only one epoch
is declared at a time. A stale driver can therefore at most complete, identically, the epoch that is declared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from effectively_once.errors import ChainError
from effectively_once.ledger.continuity import require_adjoining
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.due_epoch import repair
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.held import Held, commit, replace
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Found, Get, Step


def take_over(
    layout: Layout,
    owner: str,
    settings: dict[str, Any],
    accept: Callable[[Head], None] = lambda _: None,
    sink_topics: dict[str, str] | None = None,
    *,
    begin: Callable[[], None] = lambda: None,
) -> Step[Held]:
    """Fence every other driver: generation + 1, a new owner. Must come before anything else is read (R1).

    `accept` is shown the head that is there and raises to refuse it: a start that cannot succeed then fences nobody.
    `begin` is called where there is none, and raises lest one is made.
    `sink_topics` are the ids that the next start has to find (R10); None leaves those that are there.
    """
    while True:
        found = yield Get(layout.head)
        if isinstance(found, Found):
            old = decode(found.body, layout.head)
            accept(old)
            new = old.model_copy(
                update={"generation": old.generation + 1, "owner": owner, "sequence": old.sequence + 1}
            )
            if sink_topics is not None:
                new = new.model_copy(update={"sink_topics": sink_topics})
            held = yield from replace(layout, new, found.etag)
        else:
            begin()
            new = Head(
                pipeline=layout.pipeline, generation=1, owner=owner, settings=settings, sink_topics=sink_topics or {}
            )
            held = yield from replace(layout, new, None)
        if held is not None:
            return held


def declare(
    layout: Layout, held: Held, declaration: Declaration, published: EpochRecord | None, floor: int
) -> Step[Held]:
    """Pin the next epoch and record the one before it, in one conditional put (R3).

    Of one that reads nothing it is stated that nobody gave it up: what to publish is the declaration in head. One that
    takes what the last one left has its number of shards; any other may have another number than those before.

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
    head = record_epoch(held.head, published)
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
    if due is not None and declaration.shards != due.shards:
        raise ChainError(
            f"epoch {declaration.epoch} cannot be declared with {declaration.shards} shards, epoch {due.repairs} left "
            f"rows of {due.shards}",
            layout.head,
            "This is a defect of the driver: keep its log and restart it.",
        )
    require_adjoining(head, declaration.ranges, layout.head, declaration.lost)
    if declaration.reads_nothing and declaration.lost is None:
        declaration = declaration.model_copy(update={"abandoned": False})
    new = head.of_shards(declaration.shards).model_copy(
        update={"declared": declaration, "sequence": held.head.sequence + 1, "floor": max(held.head.floor, floor)},
    )
    return (yield from commit(layout, held, new))


def record(layout: Layout, held: Held, published: EpochRecord) -> Step[Held]:
    """Record the declared epoch without declaring another: after a recovery, and when a driver stops."""
    new = record_epoch(held.head, published).model_copy(update={"sequence": held.head.sequence + 1})
    return (yield from commit(layout, held, new))


def record_epoch(head: Head, published: EpochRecord | None) -> Head:
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


def read(layout: Layout) -> Step[Head]:
    """Head as it is now. Raises ChainError when it is gone."""
    found = yield from there(layout)
    if found is None:
        raise ChainError("head is gone", layout.head, "Restore it; do not start the pipeline without it.")
    return found


def there(layout: Layout) -> Step[Head | None]:
    """Head as it is now, None where no driver ever was or it is gone."""
    found = yield Get(layout.head)
    return decode(found.body, layout.head) if isinstance(found, Found) else None
