"""A way out of an input that lost what no epoch has read, for operators: it is recorded, and gone on behind it."""

from __future__ import annotations

import time
from collections.abc import Callable

from effectively_once.driver.preflight import Preflight
from effectively_once.driver.version import code_digest
from effectively_once.errors import ControlError, SinkError
from effectively_once.ledger import chain, due_epoch, interventions
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.objects import run
from effectively_once.ledger.offsets import Ranges
from effectively_once.ledger.pinned_version import describe
from effectively_once.operate.abandon.abandonment import Abandonment, count_shards, kinds, refuse_missing_sinks
from effectively_once.operate.abandon.fenced import files, shards
from effectively_once.pipeline.job import Job
from effectively_once.sources import retained
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore

Say = Callable[[str], object]
UNFINISHED = (
    "Nobody can finish it: a repeat reads what is gone, and so does `effectively-once repair`. Put the topic back to "
    "where these offsets begin and start the pipeline. Or put chain and sinks back to one backup with "
    "`effectively-once restore`, then run `effectively-once accept-loss` again. Or give the pipeline another name to "
    "begin anew."
)
"""The ways out of an epoch that is visible and whose input is gone."""
LOOK_AGAIN = "nothing was changed; stop every driver, then run this again with --yes"


def accept_loss(job: Job, say: Say, *, yes: bool = False, wheel_digest: str | None = None) -> None:
    """Give up what the topic lost, in an epoch of its own; or, without `yes`, tell what that is.

    An epoch that is declared over lost input is abandoned before, where nothing of it is visible. Run again after an
    interruption it goes on where it was.

    Args:
        job: the pipeline.
        say: is told each fact.
        yes: do it.
        wheel_digest: of the version that accepts; None for that of the code.

    Raises:
        ControlError: nothing is lost, or the pipeline's state is Spark's own.
        SourceError: what is lost is needed to repair an epoch.
        SinkError: the epoch that is declared over lost input is visible.
        StaleDriverError: a driver started meanwhile.
        PipelineError: what refuses a driver's start as well, but for the version.

    """
    settings, layout = job.settings, Layout(job.settings.pipeline)
    if job.pipeline.stateful is not None:
        raise ControlError(
            "the state of the pipeline is Spark's own, and its checkpoint begins where the lost input does",
            f"pipeline {settings.pipeline}",
            retained.RESTORE,
        )
    store, source = S3ObjectStore(settings.bucket), KafkaSource(settings)
    preflight = Preflight(job, layout, store, source)
    topic_ids = preflight.surroundings()
    head = run(chain.there(layout), store)
    if head is None or (head.declared is None and not head.tail):
        raise ControlError("no epoch has read anything", layout.head, "Start the pipeline: it begins at what is there.")
    first = source.first_offsets()
    begun = head.declared is not None and head.declared.lost is not None
    lost = _find_lost(head, first)
    if not lost and not begun:
        _end_without_loss(head, say)
        return
    preflight.accept(head, topic_ids, head.declared.wheel_digest if head.declared else "")
    refuse_missing_sinks(head, job.pipeline, "Accept the loss")
    preflight.marks(head)
    for topic, partitions in lost.items():
        for partition, (start, end) in partitions.items():
            say(f"gone: topic {topic} partition {partition} offsets {start} to {end - 1}, {end - start:,} at most")
    # The epoch's own number: the settings may have another one already.
    own = job.of_shards(head.shards)
    made = Abandonment(
        layout,
        store,
        tuple(shards(own)),
        tuple(files(job, store)),
        kinds(job.pipeline),
        count_shards(job.pipeline, own.settings.shards),
        say,
    )
    _abandonable(made, head, say)
    if not yes:
        say(LOOK_AGAIN)
        return
    last = head.last_recorded
    if head.declared is not None:
        made.carry_out(head.declared)
        last = head.declared.epoch
    if lost:
        loss = Loss(offsets=lost, at_ms=int(time.time() * 1000))
        made.give_up(last, loss, wheel_digest or code_digest(*job.pipeline.functions))
        last += 1
    say(f"epoch {last} records the loss; the next driver begins behind it")


def _find_lost(head: Head, first: dict[str, dict[str, int]]) -> Ranges:
    """Return what no epoch will ever have read; empty where an epoch has to be finished first, and can be.

    Raises:
        SourceError: what is gone is needed to repair an epoch.

    """
    due = due_epoch.due(head)
    unread = retained.find_gone(head, first)
    if due is None or (due.is_abandoned and not due.leaves_again):
        return unread
    if (due.repairs is not None or due.leaves_again) and unread:
        raise retained.refusal(unread, due)
    # Without the declared epoch the chain ends where that one begins.
    return retained.find_gone(head.model_copy(update={"declared": interventions.nothing(due)}), first) if unread else {}


def _end_without_loss(head: Head, say: Say) -> None:
    last = head.tail[-1] if head.tail else None
    if head.declared is None and last is not None and last.lost is not None:
        say(f"epoch {last.epoch} records the loss of {last.lost.count:,} offsets; nothing is left to do")
        return
    raise ControlError(
        "the topic holds all that is to be read next",
        f"pipeline {head.pipeline}",
        "There is nothing to accept: start the pipeline.",
    )


def _abandonable(made: Abandonment, head: Head, say: Say) -> None:
    """Refuse where rows of an epoch are visible whose input is gone: nobody can finish it."""
    declared = head.declared
    if declared is None:
        return
    say(f"epoch {declared.epoch} is declared, by {describe(declared)} in lineage {declared.lineage}")
    try:
        made.refuse_what_is_visible(declared)
    except SinkError as error:
        raise SinkError(f"{error.what}, and its input is gone", error.where, UNFINISHED) from error
    say("nothing of it is visible; it is published over nothing first")
