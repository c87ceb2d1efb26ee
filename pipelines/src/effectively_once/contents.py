"""What a head names: the objects that the chain and its readers need. Nothing is found by listing (R5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from effectively_once import catalog, state
from effectively_once.deltas import Canonical, Named, ShardDeltas
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Answer, Found, Request, run
from effectively_once.ledger.records import EpochRecord, Head
from effectively_once.reader import Manifest, files_of, of_file

CANONICAL: dict[str, Canonical] = {catalog.KIND: catalog.canonical, state.KIND: state.canonical}


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
    """A delta at or above the floor, in an object or inline."""

    kind: str
    shard: int
    named: Named

    def stored(self, layout: Layout) -> NamedObject | None:
        """Return its object; None when it travels in its epoch's record."""
        if self.named.rows.inline is not None:
            return None
        key = layout.delta(self.kind, self.named.epoch, self.shard)

        def check(body: bytes) -> object:
            return ShardDeltas(_Holding(body), layout, self.kind, self.shard, CANONICAL[self.kind]).read(self.named)

        return NamedObject(key, check)


@dataclass(frozen=True, slots=True)
class _Holding:
    """Answers with a body that was read already, to whoever reads it to check it."""

    body: bytes

    def answer(self, request: Request) -> Answer:
        return Found(self.body, request.key)


def live_deltas(records: Iterable[EpochRecord], floor: int) -> Iterator[LiveDelta]:
    """Yield the deltas that have rows, of epochs from the floor on, in the order of the chain."""
    for record in records:
        if record.epoch >= floor:
            for kind, by_shard in record.deltas.items():
                for shard, rows in by_shard.items():
                    if rows.rows:
                        yield LiveDelta(kind, int(shard), Named(record.epoch, rows))


def segments(layout: Layout, head: Head) -> Iterator[NamedObject]:
    """Yield the segments that head names, oldest first."""
    for span in head.segments:
        alone = head.model_copy(update={"segments": (span,), "tail": ()})

        def check(body: bytes, alone: Head = alone) -> object:
            return run(chain.history(layout, alone), _Holding(body))

        yield NamedObject(layout.segment(*span), check)


def outputs(layout: Layout, sink: str, manifests: Mapping[int, Manifest]) -> Iterator[NamedObject]:
    """Yield manifests of a sink, given by epoch, and the files that they name."""
    for epoch, manifest in manifests.items():
        key = layout.manifest(sink, epoch)
        yield NamedObject(key)
        for name, number in files_of(manifest, key).items():

            def check(body: bytes, name: str = name, number: int = number) -> object:
                return of_file(body, name, number)

            yield NamedObject(name, check)
