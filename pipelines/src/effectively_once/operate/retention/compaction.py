"""Compacts the manifests of a pipeline's object-store sinks into spans, while drivers publish and readers read (R9).

For 1,000 epochs that are recorded and below the floor: the span is created, then the chain is looked at again, then the
manifests that it holds are deleted. A listing only tells where there is something to do. Whatever is interrupted is
found again, and two that run at once do no more than one. Why readers miss nothing meanwhile: sinks/manifest_span.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger import chain, digest
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, ObjectStore, Step, body_of, create_once, run
from effectively_once.ledger.segments import history
from effectively_once.operate.retention.leftovers import follows
from effectively_once.pipeline.job import Job
from effectively_once.sinks import manifest_span
from effectively_once.sinks.manifest_span import Bounds, Manifest, allowed, bounds_of, manifest_of
from effectively_once.store.listing import ListingStore, S3ListingStore

WORKERS = 8
"""Spans that are made at a time; an interrupt is obeyed after as many."""
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Group:
    """Epochs of one span of a sink: whether it is there, and how many manifests are beside it, or in its place."""

    sink: str
    bounds: Bounds
    spanned: bool
    manifests: int

    @property
    def whole(self) -> bool:
        """Whether nothing is missing of what the span holds."""
        return self.spanned or self.manifests == self.bounds[1] - self.bounds[0] + 1


@dataclass
class Compactable:
    """What can be compacted of a pipeline, as one head allows it; `incomplete` lacks manifests and stays."""

    head: Head
    groups: list[Group] = field(default_factory=list)
    incomplete: list[Group] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield what is told of it."""
        yield f"chain: epoch {self.head.last_recorded} is the last recorded, floor {self.head.floor}"
        for sink in dict.fromkeys(group.sink for group in self.groups):
            ours = [group for group in self.groups if group.sink == sink]
            spans = sum(not group.spanned for group in ours)
            yield f"{sink}: {spans:,} spans to write, {sum(it.manifests for it in ours):,} manifests to delete"
        for group in self.incomplete:
            first, last = group.bounds
            yield f"{group.sink}: epochs {first} to {last} have {group.manifests:,} manifests, so they stay as they are"


def find_groups(names: Iterable[str], layout: Layout, sink: str, head: Head) -> list[Group]:
    """Return the groups of a sink that have manifests of their own and that the head allows to compact."""
    prefix = re.escape(_folder(layout, sink))
    spans: set[Bounds] = set()
    number: dict[Bounds, int] = {}
    for name in names:
        if found := re.fullmatch(prefix + r"(\d{9,})\.json", name):
            bounds = bounds_of(int(found[1]))
            number[bounds] = number.get(bounds, 0) + 1
        elif found := re.fullmatch(prefix + r"(\d{9,})-(\d{9,})\.json", name):
            spans.add((int(found[1]), int(found[2])))
    return [Group(sink, bounds, bounds in spans, number[bounds]) for bounds in sorted(number) if allowed(head, bounds)]


def write_span(layout: Layout, sink: str, head: Head, bounds: Bounds) -> Step[bool]:
    """Create the span unless it is there; False where a manifest is missing.

    Raises:
        SinkError: the head does not allow it; or a manifest is damaged, or not the one of the epoch's record.
        ChainError: a segment is missing or damaged.

    """
    if not allowed(head, bounds):
        raise SinkError(
            f"epochs {bounds[0]} to {bounds[1]} of sink {sink} are not all recorded and below the floor",
            layout.head,
            "This is a defect of the compaction: nothing was changed.",
        )
    if (yield from manifest_span.read(layout, sink, bounds)) is not None:
        return True
    manifests: dict[int, Manifest] = {}
    for epoch in range(bounds[0], bounds[1] + 1):
        key = layout.manifest(sink, epoch)
        body = yield from body_of(key)
        if body is None:
            # Another one may have made the span meanwhile, and deleted this.
            return (yield from manifest_span.read(layout, sink, bounds)) is not None
        manifests[epoch] = manifest_of(body, key, epoch)
    for record in (yield from _records(layout, head, bounds)):
        _refuse_another(record, layout, sink, manifests[record.epoch])
    key = layout.manifests(sink, *bounds)
    held = yield from create_once(key, manifest_span.encode(manifests))
    # The content that holds may be another's. Its originals are still there: damage is to be found now.
    manifest_span.decode(held, bounds, key)
    return True


def delete_beside(layout: Layout, sink: str, bounds: Bounds) -> Step[None]:
    """Delete the manifests beside a span, which must be there: the newest first, as readers go."""
    for epoch in range(bounds[1], bounds[0] - 1, -1):
        yield Delete(layout.manifest(sink, epoch))


class Compaction:
    """Compacts one pipeline.

    Args:
        store: its bucket.
        layout: its names.
        sinks: its object-store sinks.
        say: is told how far it is.

    """

    def __init__(self, store: ListingStore, layout: Layout, sinks: Iterable[str], say: Say = lambda _: None) -> None:
        self._store, self._layout, self._sinks, self._say = store, layout, tuple(sinks), say

    def find(self) -> Compactable:
        """Find what can be compacted. Raises ChainError when head is gone or damaged."""
        found = Compactable(run(chain.read(self._layout), self._store))
        for sink in self._sinks:
            names = (one.name for one in self._store.list_objects(_folder(self._layout, sink)))
            for group in find_groups(names, self._layout, sink, found.head):
                (found.groups if group.whole else found.incomplete).append(group)
        return found

    def carry_out(self, found: Compactable) -> None:
        """Write the spans, and delete what they hold. What an interrupt leaves is found again.

        Raises:
            SinkError: see `write_span`; nothing of that span's epochs was deleted.
            ChainError: the chain was replaced by another one meanwhile, or is damaged.

        """
        groups, done = iter(found.groups), 0
        with ThreadPoolExecutor(WORKERS) as pool:
            while chunk := list(islice(groups, WORKERS)):
                for _ in pool.map(lambda group: compact_group(self._store, self._layout, found.head, group), chunk):
                    pass
                done += len(chunk)
                self._say(f"{done:,} of {len(found.groups):,} spans are done")


def compact_group(store: ObjectStore, layout: Layout, head: Head, group: Group) -> None:
    """Write a span, and delete what it holds if the chain still is what it was."""
    if not run(write_span(layout, group.sink, head, group.bounds), store):
        return
    if not follows(head, run(chain.read(layout), store)):
        raise ChainError(
            "the chain is not what it was when its manifests were listed: it was restored, or begun anew",
            layout.head,
            f"Delete {layout.manifests(group.sink, *group.bounds)} if it is not of the new chain; no manifest was "
            "deleted.",
        )
    run(delete_beside(layout, group.sink, group.bounds), store)


def compact(job: Job, say: Say, *, yes: bool) -> None:
    """Tell what can be compacted of a pipeline, and do it when asked to. Raises PipelineError."""
    settings = job.settings
    work = Compaction(S3ListingStore(settings.bucket), Layout(settings.pipeline), job.pipeline.file_sinks, say)
    found = work.find()
    for line in found.lines():
        say(line)
    if not found.groups:
        say("nothing to compact")
    elif not yes:
        say("nothing was changed; --yes does it")
    else:
        work.carry_out(found)


def _records(layout: Layout, head: Head, bounds: Bounds) -> Step[list[EpochRecord]]:
    first, last = bounds
    segments = tuple(span for span in head.segments if span[0] <= last)
    records = yield from history(layout, head.model_copy(update={"segments": segments}), first)
    return [record for record in records if first <= record.epoch <= last]


def _refuse_another(record: EpochRecord, layout: Layout, sink: str, manifest: Manifest) -> None:
    """Refuse a manifest of other rows than were recorded; a sink that was added later is in no record of before."""
    shards = record.sinks.get(sink)
    if shards is None:
        return
    rows, recorded = sum(it.rows for it in shards.values()), digest.add(it.digest for it in shards.values())
    # Two versions had a part in an epoch with digests of two forms: its rows were compared when it was published.
    comparable = digest.is_former(manifest["digest"]) == digest.is_former(recorded)
    if manifest["rows"] != rows or (comparable and manifest["digest"] != recorded):
        raise SinkError(
            f"the manifest of epoch {record.epoch} is not of the rows that were recorded",
            layout.manifest(sink, record.epoch),
            "Restore it from the bucket's versions or a backup.",
        )


def _folder(layout: Layout, sink: str) -> str:
    """Where the manifests of a sink are."""
    return layout.manifest(sink, 0).rpartition("/")[0] + "/"
