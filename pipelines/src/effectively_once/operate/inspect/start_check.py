"""Whether a driver could start, asked without starting one: head is read, never taken over."""

from __future__ import annotations

from dataclasses import dataclass

from effectively_once.driver import control
from effectively_once.driver.preflight import Preflight
from effectively_once.errors import PipelineError, SinkError
from effectively_once.ledger import due_epoch
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.held import Held
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Found, Get, run
from effectively_once.pipeline.job import Job
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore

TRIES = 5
PATIENCE_S = 5.0
"""For a mark that lags, and for servers that do not answer: somebody is waiting for the answer."""


@dataclass(frozen=True, slots=True)
class StartCheck:
    """What came of it, in a line, and what refuses a start.

    A driver would start, and what comes first then; or it would end at once, because the pipeline is drained; it would
    be refused; or one is at work, so that it cannot be told.
    """

    verdict: str
    refusal: PipelineError | None = None


def start_check(job: Job, store: S3ObjectStore, wheel_digest: str | None = None) -> StartCheck:
    """Ask everything that a driver's start asks before Spark (R10), by the functions that it asks with.

    What it tries by writing (`Preflight.probe`) or with Spark (`rows.check`, `stateful_plan.check`) is left out: the
    verdict says so. Without the digest of a wheel it is not told whether another version has to finish the declared
    epoch first, or to repair the last one (R3).
    """
    settings, layout = job.settings, Layout(job.settings.pipeline)
    patient = settings.model_copy(update={"start_patience_s": min(settings.start_patience_s, PATIENCE_S)})
    preflight = Preflight(Job(job.pipeline, patient), layout, store, KafkaSource(patient))
    try:
        topic_ids = preflight.surroundings()
        preflight.warnings()
        preflight.find_tried()
        stalled = preflight.find_stalled()
        for _ in range(TRIES):
            found = store.answer(Get(layout.head))
            try:
                head = _head(found, layout, job)
                due = due_epoch.due(head)
                preflight.accept(head, topic_ids, wheel_digest or (due.wheel_digest if due else ""))
                preflight.refuse_lost_input(head)
                preflight.chain(Held(head, ""))
                wish = run(control.read(layout), store)
            except PipelineError as error:
                # Marks are compared with a head that was read before them: only one that stayed can be contradicted.
                if store.answer(Get(layout.head)) == found:
                    return StartCheck("refused", error)
            except (ValueError, TypeError) as error:
                return StartCheck(
                    "refused",
                    SinkError(
                        f"a progress mark cannot be read: {error}", settings.kafka_bootstrap, "Restore the topic."
                    ),
                )
            else:
                return StartCheck(_verdict(head, wish, stalled, job))
    except PipelineError as error:
        return StartCheck("refused", error)
    return StartCheck("a driver is at work")


def _verdict(head: Head, wish: control.Wish, stalled: list[str], job: Job) -> str:
    """Say what a driver would do that is not refused. Whether a repeat comes to the same shows only when it is made."""
    due = due_epoch.due(head)
    if due is None and control.is_drained(control.reached_ranges(head), wish):
        return f"a driver would end at once: {control.stopped_line(wish)}"
    told = ["a driver would start"]
    if head.declared is not None:
        told.append(f"epoch {head.declared.epoch} is declared and is repeated first")
    elif due is not None:
        told.append(f"epoch {due.epoch} {'takes the rest of' if due.after else 'repairs'} epoch {due.repairs} first")
    if wish.state is not control.State.RUNNING:
        told.append(f"the pipeline is {wish.state}")
    told += [f"topic {name} takes no write until more of its replicas are in sync" for name in stalled]
    return "; ".join([*told, say_unasked(job)])


def say_unasked(job: Job) -> str:
    """Say what only a start itself finds out."""
    left = ["what the store makes of conditional writes", "the transform"]
    if job.pipeline.stateful is not None:
        left.append("the stateful query")
    return f"not asked, as it takes writes or Spark: {', '.join(left)}"


def _head(found: object, layout: Layout, job: Job) -> Head:
    """Return head, or the one that a first driver would write."""
    if isinstance(found, Found):
        return decode(found.body, layout.head)
    return Head(pipeline=layout.pipeline, generation=1, owner="", settings=job.bound)
