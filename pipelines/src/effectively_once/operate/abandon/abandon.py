"""A way out of an epoch that its version cannot finish, for operators: `abandonment.py` with real servers."""

from __future__ import annotations

from collections.abc import Callable

from effectively_once.driver.preflight import Preflight
from effectively_once.errors import ControlError
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.ledger.pinned_version import describe
from effectively_once.operate.abandon.abandonment import Abandonment, count_shards, kinds, refuse_missing_sinks
from effectively_once.operate.abandon.fenced import files, shards
from effectively_once.pipeline.job import Job
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore

Say = Callable[[str], object]


def abandon(job: Job, say: Say, *, yes: bool = False) -> None:
    """Abandon the declared epoch of a pipeline, or, without `yes`, tell whether that can be done.

    Run again after an interruption it goes on where it was; of an epoch that is abandoned it says so.

    Raises:
        ControlError: no epoch is declared, or the pipeline's state is Spark's own.
        SinkError: something of the epoch is visible; or a driver published some of it meanwhile.
        StaleDriverError: a driver started meanwhile.
        PipelineError: what refuses a driver's start as well, but for the version.

    """
    settings, layout = job.settings, Layout(job.settings.pipeline)
    if job.pipeline.stateful is not None:
        raise ControlError(
            "an epoch of a pipeline whose state is Spark's own is repeated with Spark's batch, never over nothing",
            f"pipeline {settings.pipeline}",
            "The version that declared it has to finish it.",
        )
    store = S3ObjectStore(settings.bucket)
    preflight = Preflight(job, layout, store, KafkaSource(settings))
    topic_ids = preflight.surroundings()
    head = run(chain.there(layout), store)
    if head is not None and head.declared is None and head.tail and head.tail[-1].is_abandoned:
        say(f"epoch {head.last_recorded} is abandoned and recorded; nothing is left to do")
        return
    if head is None or head.declared is None:
        raise ControlError("no epoch is declared", layout.head, "There is nothing to abandon: start the pipeline.")
    declared = head.declared
    if declared.repairs is not None and not declared.is_rest:
        raise ControlError(
            f"epoch {declared.epoch} repairs epoch {declared.repairs}: what that one lacks would be lost",
            layout.head,
            "Start the version that declared it.",
        )
    preflight.accept(head, topic_ids, declared.wheel_digest)
    refuse_missing_sinks(head, job.pipeline, "Abandon the epoch")
    preflight.marks(head)
    say(f"epoch {declared.epoch} is declared, by {describe(declared)} in lineage {declared.lineage}")
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
    made.refuse_what_is_visible(declared)
    say("nothing of it is visible")
    if not yes:
        say("nothing was changed; stop every driver, then run this again with --yes")
        return
    made.carry_out(declared)
    say(f"epoch {declared.epoch} is abandoned; the next driver declares epoch {declared.epoch + 1} over its input")
