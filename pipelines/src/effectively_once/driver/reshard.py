"""Another number of shards than the chain's last epoch had: it holds from the next epoch that is declared.

What is declared keeps its number, and so does the rest of a divided epoch: both come first. State needs no step of its
own, as the chain names the deltas of all shards, and each of the new ones takes what has moved to it (`state/homes`).
What is left are marks: a shard that is new, or comes back, lacks that of the last epoch, which the next one rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import structlog

from effectively_once.errors import SettingsError, UnreachableError
from effectively_once.ledger.head import Head
from effectively_once.pipeline.job import Job
from effectively_once.sinks.publish import FencedError, Mark, refuse_outside

ATTEMPTS = 3


class Begun(Protocol):
    """A shard of a sink that begins: `begin` gives it the mark of an epoch, by a generation, over nothing."""

    @property
    def address(self) -> object:
        """Name it, for messages."""
        ...

    def begin(self, epoch: int, generation: int, /) -> Mark | None:
        """Return the mark that is there now. Raises FencedError: somebody else opened it meanwhile."""
        ...


log = structlog.get_logger()


def bound_of(job: Job) -> dict[str, Any]:
    """Return what has to be as it was when the pipeline began. Of Spark's own state that is the number of shards too.

    It is in as many partitions as it began with.
    """
    kept = () if job.pipeline.stateful is not None else ("shards",)
    return {name: value for name, value in job.bound.items() if name not in kept}


def is_due(head: Head, job: Job) -> bool:
    """Whether the next epoch will have another number of shards than the last one."""
    return job.pipeline.stateful is None and head.shards not in (None, job.settings.shards)


def refuse_compacted(policies: Mapping[str, str], head: Head, job: Job) -> None:
    """Refuse another number of shards where the rows' topic of a sink is compacted.

    A key that moves to another partition leaves its last row in the one before, where nothing replaces it.

    Raises:
        SettingsError: naming the topic.

    """
    for topic, policy in policies.items():
        if "compact" in policy:
            raise SettingsError(
                f"shards was {head.shards} and is {job.settings.shards} now, and a topic of rows has "
                f"cleanup.policy={policy}: the last row of each key that moves would stay in its former partition",
                f"topic {topic}",
                f"Set shards back to {head.shards}, or give the pipeline another name to begin anew.",
            )


def begin_shards(
    head: Head,
    shards: int,
    open_shards: Callable[[Iterable[int]], Iterable[Begun]],
    still_ours: Callable[[], None],
) -> None:
    """Give shards that the last epoch did not have its mark, over nothing. Safe to run again, and beside others.

    Whoever goes on with the former number does not look at them.

    Args:
        head: nothing is declared, and nothing is left of an epoch.
        shards: how many the next epoch will have.
        open_shards: opens shards of these numbers of every sink with marks.
        still_ours: raises where another driver took over.

    Raises:
        SinkError: a mark is beyond the chain, or has no place: `effectively-once create` makes it.
        PipelineError: as sinks do.

    """
    if head.shards in (None, shards):
        return
    last = head.last_recorded
    for sink in open_shards(range(head.shards, shards)):
        mark = _begin(sink, last, head.generation, still_ours)
        if mark is None or mark.epoch != last:
            still_ours()
        refuse_outside(mark, last, last, str(sink.address))
    log.info("another number of shards", before=head.shards, now=shards, epoch=last + 1)


def _begin(sink: Begun, epoch: int, generation: int, still_ours: Callable[[], None]) -> Mark | None:
    for _ in range(ATTEMPTS):
        try:
            return sink.begin(epoch, generation)
        except FencedError:
            still_ours()
    raise UnreachableError(
        "somebody else keeps opening producers", str(sink.address), "Stop every other driver, then start again."
    )
