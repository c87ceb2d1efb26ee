"""Drivers of the model whose settings have different numbers of shards, by the product's code (`driver/reshard.py`)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from effectively_once.errors import StaleDriverError
from effectively_once.ledger import chain, digest
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.objects import ObjectStore
from effectively_once.sinks.publish import EndHanging, FencedError, Mark, Open, begin, refuse_outside
from effectively_once.state import catalog, homes
from effectively_once.state.deltas import FoldCache, Named, ShardDeltas, list_all, list_own
from effectively_once.state.lateness import Windows
from tests.model import state
from tests.model.asked import asking
from tests.model.at import LAYOUT, At, Phase
from tests.model.driver import Driver
from tests.model.shards import ToShard

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.model.world import Step


@dataclass(frozen=True, slots=True)
class ReshardedDriver(Driver):
    """Runs a pipeline with as many shards as its settings say, each with a catalog of its own.

    Attributes:
        numbers: of shards, as the settings of driver A, of B, and of the third one say.
        pins_number: whether a repeat goes by the number of the declaration, not by that of its own driver.
        gives_marks: whether shards that the last epoch did not have get its mark.
        reads_others: whether a shard reads what was decided for shards of another number.

    """

    numbers: tuple[int, int, int] = (1, 2, 2)
    pins_number: bool = True
    gives_marks: bool = True
    reads_others: bool = True

    @property
    def _number(self) -> int:
        return self.numbers["ABF".index(self.name)]

    def _declaration(self, declaration: Declaration) -> Declaration:
        return declaration.model_copy(update={"shards": self._number})

    def _shards(self, at: At) -> int:
        return at.declaration.shards if self.pins_number else self._number

    def _home(self, at: At, one: str) -> int:
        return homes.shard_of(one.encode(), self._shards(at))

    def _next(self, at: At) -> Phase:
        """Give new shards their marks, then declare."""
        head = at.held.head
        if not at.published and self.gives_marks and head.shards is not None:
            for shard in range(head.shards, self._number):
                yield from self._begin(at, shard)
        return (yield from Driver._next(self, at))

    def _begin(self, at: At, shard: int) -> Generator[Step, Any, None]:
        head = at.held.head
        ours = Mark(head.last_recorded, head.generation, 0, digest.EMPTY)
        while True:
            try:
                mark = yield from _by_producer(shard, ours)
            except FencedError:
                yield from self._still_ours()
                continue
            if mark.epoch != ours.epoch:
                yield from self._still_ours()
            refuse_outside(mark, ours.epoch, ours.epoch, f"shard {shard}")
            return

    def _still_ours(self) -> Generator[Step, Any, None]:
        now = yield from chain.read(LAYOUT)
        if now.owner != self.name:
            raise StaleDriverError(f"{self.name} was replaced", LAYOUT.head, "")

    def _decide(self, at: At) -> Phase:
        """Decide in each shard, from what the chain names for it."""
        start, end = at.declaration.ranges["t"]["0"]
        new: list[str] = []
        deltas: dict[str, str] = {}
        for shard in range(self._shards(at)):
            ids = [one for one, _ in self.pipeline.input[start:end] if self._home(at, one) == shard]
            accepted, delta = yield from asking(partial(self._of, at, shard, ids))
            new += accepted
            deltas[str(shard)] = delta.model_dump_json()
        return replace(at, phase="record", new=tuple(new), delta=json.dumps(deltas))

    def _of(self, at: At, shard: int, ids: list[str], store: ObjectStore) -> tuple[list[str], Delta]:
        pinned, windows = at.declaration, Windows(self.pipeline.length, self.pipeline.lateness)
        shards = self._shards(at)
        log = ShardDeltas(store, LAYOUT, catalog.KIND, shard, catalog.canonical, shards=shards)
        known = FoldCache().state(log, lambda: catalog.Catalog(windows), self._named(at, shard), pinned.epoch)
        rows = pa.table({"id": ids, "event_time_ms": [0] * len(ids)}, catalog.SCHEMA)
        rows = rows.filter(pa.array(known.decide(rows["id"])))
        accepted: list[str] = rows["id"].cast(pa.string()).to_pylist()
        return accepted, log.write(pinned.epoch, rows)

    def _named(self, at: At, shard: int) -> list[Named]:
        named = state.live(self.pipeline, self.rules, at).list_named()
        reads = list_all if self.reads_others else list_own
        return reads(named.get(catalog.KIND, {}), shard, self._shards(at))

    def _deltas(self, at: At) -> dict[str, dict[str, Delta]]:
        told = json.loads(at.delta)
        return {catalog.KIND: {shard: Delta.model_validate_json(text) for shard, text in told.items()}}


def _by_producer(shard: int, ours: Mark) -> Generator[Step, Any, Mark]:
    """Carry the product's step out."""
    step, producer = begin(ours, f"shard {shard}"), 0
    request = next(step)
    try:
        while True:
            # No broker of this exploration leaves a commit open.
            reply = False if isinstance(request, EndHanging) else (yield ToShard(shard, producer, request))
            if isinstance(request, Open):
                producer, reply = reply, None
            request = step.send(reply)
    except StopIteration as end:
        mark: Mark = end.value
        return mark
