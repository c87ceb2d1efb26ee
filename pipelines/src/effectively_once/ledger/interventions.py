"""What operators pin in head: an epoch over nothing, one finished as it is shown, one behind a loss."""

from __future__ import annotations

from collections.abc import Mapping

from effectively_once.errors import ChainError
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.chain import declare
from effectively_once.ledger.continuity import behind, ends
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.due_epoch import clock_after
from effectively_once.ledger.held import Held, commit
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.objects import Step
from effectively_once.ledger.pinned_version import UNKNOWN


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
    return (yield from commit(layout, held, new))


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
    return (yield from commit(layout, held, new))


def give_up(layout: Layout, held: Held, loss: Loss, *, lineage: str, wheel_digest: str) -> Step[Held]:
    """Declare an epoch over nothing that begins behind what the topic has lost; the next one adjoins it.

    Its watermark is that of the epoch before: it closes no window. Its lineage has no checkpoint, so that the next
    driver has Spark begin where the chain ends, whatever was planned over the lost offsets.

    Raises:
        StaleDriverError: another driver changed head.
        ChainError: an epoch is declared or to be repaired, or the loss does not begin where the chain ends.

    """
    last = held.head.tail[-1]
    begins = behind(ends(held.head), loss, layout.head)
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
            "clock": clock_after(last),
            "abandoned": True,
        }
    )
    return (yield from declare(layout, held, pinned, None, held.head.floor))
