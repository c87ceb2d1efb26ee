"""A way out of an epoch of which a shard has shown too little, for operators: `mending.py` with real servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from effectively_once.driver.preflight import Preflight
from effectively_once.errors import ControlError
from effectively_once.ledger import chain, due_epoch
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.ledger.pinned_version import describe
from effectively_once.operate.abandon.abandonment import refuse_missing_sinks
from effectively_once.operate.abandon.fenced import files, shown_shards
from effectively_once.operate.abandon.mending import Mending
from effectively_once.pipeline.job import Job
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore

Say = Callable[[str], object]


def repair(
    job: Job,
    say: Say,
    *,
    yes: bool = False,
    wheel_digest: str | None = None,
    runtime: Mapping[str, str] | None = None,
) -> None:
    """Let the next driver finish the declared epoch as it is shown, or, without `yes`, tell whether that can be done.

    That driver then publishes what the epoch lacks under the next number. Run again after an interruption, or when
    something else became visible meanwhile, it looks anew.

    Args:
        job: the pipeline.
        say: is told each fact.
        yes: do it.
        wheel_digest: of the version that is to finish the epoch; None for the one that declared it.
        runtime: what that version runs on; None for what the declaration says.

    Raises:
        ControlError: there is no epoch that could be repaired.
        SinkError: something else is visible than what the epoch can be finished with.
        StaleDriverError: a driver started meanwhile.
        PipelineError: what refuses a driver's start as well, but for the version.

    """
    settings, layout = job.settings, Layout(job.settings.pipeline)
    _refuse_kinds(job)
    store = S3ObjectStore(settings.bucket)
    preflight = Preflight(job, layout, store, KafkaSource(settings))
    topic_ids = preflight.surroundings()
    head = run(chain.there(layout), store)
    if head is not None and _is_done(head, say):
        return
    declared = _require_declared(head, layout)
    assert head is not None  # noqa: S101 - `_require_declared` saw to it
    preflight.accept(head, topic_ids, declared.wheel_digest)
    preflight.refuse_lost_input(head)
    refuse_missing_sinks(head, job.pipeline, "Repair the epoch")
    preflight.marks(head)
    say(f"epoch {declared.epoch} is declared, by {describe(declared)} in lineage {declared.lineage}")
    if declared.shown:
        say(f"it is to be finished as shards {', '.join(declared.shown)} showed it before")
    # Its own number of shards: the settings may have another one already.
    shown = tuple(shown_shards(job.of_shards(declared.shards)))
    made = Mending(layout, store, job.pipeline, shown, tuple(files(job, store)), say)
    finished = made.look(declared)
    named = ", ".join(map(str, finished))
    if finished:
        say(f"shards {named} can be finished as shown; the next epoch takes what they leave of the input")
    else:
        say("nothing of it is visible; what was decided is decided again")
    wheel = wheel_digest or declared.wheel_digest
    if wheel != declared.wheel_digest:
        say(f"wheel {wheel[:12]} is to finish it, and has to come to what is visible")
    if not yes:
        say("nothing was changed; stop every driver, then run this again with --yes")
        return
    made.carry_out(declared, wheel, declared.runtime if runtime is None else runtime)
    number = declared.epoch
    lacks = f"finishes epoch {number} as it is shown, and publishes what it lacks as epoch {number + 1}"
    say(f"the next driver {lacks if finished else f'publishes epoch {number}'}")


def _refuse_kinds(job: Job) -> None:
    where = f"pipeline {job.settings.pipeline}"
    if job.pipeline.stateful is not None:
        raise ControlError(
            "an epoch of a pipeline whose state is Spark's own is repeated with Spark's batch, never with other rows",
            where,
            "Restore it from a backup, or give the pipeline another name.",
        )
    if job.settings.semantics != "exactly_once":
        raise ControlError(
            "a pipeline that publishes at least once has no marks, so nobody can tell what it shows of an epoch",
            where,
            "Give the pipeline another name to publish everything anew.",
        )


def _is_done(head: Head, say: Say) -> bool:
    """Tell of an epoch that is repaired, or about to be."""
    last = head.tail[-1] if head.tail and head.declared is None else None
    due = due_epoch.repair(head)
    if due is not None and due.after:
        say(f"epoch {due.repairs} was more than a shard takes; the next driver publishes the rest of it")
    elif due is not None:
        say(f"epoch {due.repairs} is finished as it was shown; the next driver publishes what it lacks")
    elif last is not None and last.repairs is not None and not last.after:
        say(f"epoch {last.repairs} is repaired by epoch {last.epoch}; nothing is left to do")
    return due is not None or (last is not None and last.repairs is not None and not last.after)


def _require_declared(head: Head | None, layout: Layout) -> Declaration:
    """Return the epoch to repair. Raises ControlError when there is none."""
    if head is None or head.declared is None:
        raise ControlError("no epoch is declared", layout.head, "There is nothing to repair: start the pipeline.")
    declared = head.declared
    if declared.repairs is not None:
        raise ControlError(
            f"epoch {declared.epoch} repairs epoch {declared.repairs} itself",
            layout.head,
            "Start the version that declared it. If its repeats are refused: restore the pipeline from a backup.",
        )
    if declared.is_abandoned:
        raise ControlError(
            f"epoch {declared.epoch} is abandoned and covers nothing",
            layout.head,
            "There is nothing to repair: run `effectively-once abandon` again, or start the pipeline.",
        )
    return declared
