"""Sinks that are added to a pipeline which has published: they begin with the epoch after the last recorded one.

The start check wants every mark between the last recorded and the declared epoch (R10). A sink that the chain does not
know yet gets its mark there, over nothing; a sink of files a manifest of no files for every epoch before,
because readers follow manifests without a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from effectively_once.errors import SinkError
from effectively_once.ledger import chain
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, run
from effectively_once.operate.abandon.abandonment import Files, count_shards
from effectively_once.operate.abandon.fenced import files, shards
from effectively_once.pipeline.job import Job

WRITERS = 16
"""Manifests that are written at a time."""


def begin(job: Job, store: ObjectStore, say: Callable[[str], object]) -> None:
    """Give marks to the sinks that the last recorded epoch was not published to. Safe to run again.

    Their topics and tables have to be there. A pipeline without a recorded epoch needs none: marks begin with it.

    Raises:
        SinkError: an epoch is declared, or was while this ran, that is published without them.
        PipelineError: as sinks and chain do.

    """
    layout = Layout(job.settings.pipeline)
    head = run(chain.there(layout), store)
    added = new(head, job)
    if head is None or not added:
        return
    if head.declared is not None:
        raise _without(added, layout)
    last = head.last_recorded
    for shard in shards(job, added):
        shard.begin(last, head.generation)
    for each in files(job, store):
        if each.name in added:
            # Nobody follows the snapshots of a lake table one by one.
            first = last if each.name in job.pipeline.lake_tables else 0
            if first < last:
                say(f"{each}: a manifest for each epoch up to {last}")

            def fill(epoch: int, to: Files = each) -> None:
                # One that was removed and comes back has some.
                if to.sink.mark_at(epoch) is None:
                    to.begin(epoch, head.generation)

            with ThreadPoolExecutor(WRITERS) as pool:
                for _ in pool.map(fill, range(first, last)):
                    pass
            # Last: it is what a start looks for.
            fill(last)
    now = run(chain.there(layout), store)
    if now is None or now.last_recorded != last or now.declared is not None:
        raise _without(added, layout)
    for name in added:
        say(f"sink {name} is new, it begins with epoch {last + 1}")


def new(head: Head | None, job: Job) -> list[str]:
    """Names of the sinks that the last recorded epoch was not published to; none before the first one."""
    if head is None or not head.tail:
        return []
    return [name for name in count_shards(job.pipeline, 1) if name not in head.tail[-1].sinks]


def _without(added: list[str], layout: Layout) -> SinkError:
    return SinkError(
        f"sinks {', '.join(added)} are new, and a driver publishes epochs without them",
        layout.head,
        "Stop it with `effectively-once drain`, run this again, then start the version that has them.",
    )
