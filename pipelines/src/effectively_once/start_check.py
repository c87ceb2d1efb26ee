"""Whether a driver could start, asked without starting one: head is read, never taken over."""

from __future__ import annotations

from dataclasses import dataclass

from effectively_once.errors import PipelineError, SinkError
from effectively_once.job import Job
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Found, Get
from effectively_once.ledger.records import Head
from effectively_once.object_store import S3ObjectStore
from effectively_once.preflight import Preflight
from effectively_once.sources.kafka import KafkaSource

TRIES = 5
PATIENCE_S = 5.0
"""For a mark that lags, and for servers that do not answer: somebody is waiting for the answer."""


@dataclass(frozen=True, slots=True)
class StartCheck:
    """What came of it: a driver would start, would be refused, or one is at work, so that it cannot be told."""

    verdict: str
    refusal: PipelineError | None = None


def start_check(job: Job, store: S3ObjectStore, wheel_digest: str | None = None) -> StartCheck:
    """Ask everything that a driver's start asks (R10).

    Without the digest of a wheel it is not told whether another version has to finish the declared epoch first (R3).
    """
    settings, layout = job.settings, Layout(job.settings.pipeline)
    patient = settings.model_copy(update={"start_patience_s": min(settings.start_patience_s, PATIENCE_S)})
    preflight = Preflight(Job(job.pipeline, patient), layout, store, KafkaSource(patient))
    try:
        topic_ids = preflight.surroundings()
        for _ in range(TRIES):
            found = store.answer(Get(layout.head))
            try:
                head = _head(found, layout, job)
                preflight.accept(head, topic_ids, wheel_digest or (head.declared.wheel_digest if head.declared else ""))
                preflight.retained(head)
                preflight.chain(chain.Held(head, ""))
            except PipelineError as error:
                # Marks are compared with a head that was read before them: only one that stayed can be contradicted.
                if store.answer(Get(layout.head)) == found:
                    return StartCheck("refused", error)
            except (ValueError, TypeError) as error:
                return StartCheck("refused", SinkError(
                    f"a progress mark cannot be read: {error}", settings.kafka_bootstrap, "Restore the topic."
                ))  # fmt: skip
            else:
                return StartCheck("a driver would start")
    except PipelineError as error:
        return StartCheck("refused", error)
    return StartCheck("a driver is at work")


def _head(found: object, layout: Layout, job: Job) -> Head:
    """Return head, or the one that a first driver would write."""
    if isinstance(found, Found):
        return chain.decoded(found.body, layout.head)
    return Head(pipeline=layout.pipeline, generation=1, owner="", settings=job.bound)
