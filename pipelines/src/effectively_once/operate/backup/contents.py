"""What a head names: the objects that the chain and its readers need. Nothing is found by listing (R5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from effectively_once.epoch import as_shown
from effectively_once.errors import SinkError
from effectively_once.ledger import due_epoch
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Answer, Found, Request, run
from effectively_once.ledger.segments import history
from effectively_once.sinks import letter_records
from effectively_once.sinks.manifest_span import Manifest, manifest_of
from effectively_once.sinks.reader import Kept, files_of, of_file
from effectively_once.state import catalog, merge, windows
from effectively_once.state.deltas import Canonical, Named, ShardDeltas


@dataclass(frozen=True, slots=True)
class NamedObject:
    """One object.

    Attributes:
        key: its name.
        check: raises ChainError or SinkError for a content that is damaged.

    """

    key: str
    check: Callable[[bytes], object] = lambda _: None


@dataclass(frozen=True, slots=True)
class LiveDelta:
    """A delta at or above the floor, in an object or inline, or the span that stands for several."""

    kind: str
    shard: int
    named: Named

    def named_object(self, layout: Layout) -> NamedObject | None:
        """Return its object; None when it travels in its epoch's record."""
        key = self.named.key(layout, self.kind, self.shard)
        if key is None:
            return None

        def check(body: bytes) -> object:
            return ShardDeltas(_Holding(body), layout, self.kind, self.shard, _canonical(self.kind)).read(self.named)

        return NamedObject(key, check)


@dataclass(frozen=True, slots=True)
class _Holding:
    """Answers with a body that was read already, to whoever reads it to check it."""

    body: bytes

    def answer(self, request: Request) -> Answer:
        return Found(self.body, request.key)


def live_deltas(records: Iterable[EpochRecord], floor: int) -> Iterator[LiveDelta]:
    """Yield what a start folds, in the order of the chain: deltas that have rows, and spans instead of their parts."""
    named: dict[merge.Where, list[Named]] = {}
    for record in records:
        merge.take_in(named, record)
    live = [
        LiveDelta(kind, shard, entry)
        for (kind, shard), entries in named.items()
        for entry in entries
        if entry.epoch >= floor and entry.rows.rows
    ]
    yield from sorted(live, key=lambda delta: delta.named.epoch)


def segments(layout: Layout, head: Head) -> Iterator[NamedObject]:
    """Yield the segments that head names, oldest first."""
    for span in head.segments:
        alone = head.model_copy(update={"segments": (span,), "tail": ()})

        def check(body: bytes, alone: Head = alone) -> object:
            return run(history(layout, alone), _Holding(body))

        yield NamedObject(layout.segment(*span), check)


def shown_rows(layout: Layout, head: Head) -> Iterator[NamedObject]:
    """Yield what is pinned of an epoch that is finished as it was shown, until the next one has repaired it (R10)."""
    pinned = due_epoch.due(head)
    for shard, shown in pinned.shown.items() if pinned else ():
        if shown.key is not None:

            def check(body: bytes, shown: AsShown = shown) -> object:
                return as_shown.read(_Holding(body), shown)

            yield NamedObject(shown.key, check)
        if shown.ids is not None and pinned is not None and pinned.repairs is None:
            # Recorded it is a delta like any other.
            stored = LiveDelta(catalog.KIND, int(shard), Named(pinned.epoch, shown.ids, pinned.decides)).named_object(
                layout
            )
            if stored is not None:
                yield stored


def list_refused(head: Head, listed: Iterable[str]) -> Iterator[NamedObject]:
    """Yield the refused records of recorded epochs that are no part of their dead letter, of the names below `letters`.

    A listing finds them, as dead letters name them and no head does. Those of the declared epoch are put there again.
    """
    for key in listed:
        epoch = letter_records.epoch_of(key)
        if epoch is not None and epoch <= head.last_recorded:

            def check(body: bytes, key: str = key) -> None:
                letter_records.check(body, key)

            yield NamedObject(key, check)


def outputs(kept: Kept) -> Iterator[NamedObject]:
    """Yield manifests of a sink, or the spans that hold them, and the files that they name."""
    held: dict[str, dict[int, Manifest]] = {}
    for epoch, manifest in kept.manifests.items():
        held.setdefault(kept.keys[epoch], {})[epoch] = manifest
    for key, manifests in held.items():
        yield NamedObject(key, _make_check(key, manifests))
    for epoch, manifest in kept.manifests.items():
        for name, number in files_of(manifest, kept.keys[epoch]).items():

            def check(body: bytes, name: str = name, number: int = number) -> object:
                return of_file(body, name, number)

            yield NamedObject(name, check)


def _make_check(key: str, manifests: Mapping[int, Manifest]) -> Callable[[bytes], object]:
    """A check that an object still holds these manifests: one beside a span may be another driver's (R9)."""

    def check(body: bytes) -> None:
        lines = (manifest_of(line, key) for line in body.split(b"\n"))
        found = {line.get("epoch"): line for line in lines}
        if any(found.get(epoch) != manifest for epoch, manifest in manifests.items()):
            raise SinkError(
                "a manifest is not the one that was read before",
                key,
                "Manifests were compacted meanwhile, or it is damaged: run this again.",
            )

    return check


def _canonical(kind: str) -> Canonical:
    """Bytes that rows are digested by: ids are the catalog's, every other kind is that of some windows."""
    return catalog.canonical if kind == catalog.KIND else windows.canonical
