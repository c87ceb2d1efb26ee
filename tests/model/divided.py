"""A driver of the model whose shards take no more than so many rows at once, by the product's code (`division.py`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from effectively_once.epoch import division
from effectively_once.ledger import chain, due_epoch
from effectively_once.ledger.declaration import Declaration
from effectively_once.pipeline.columns import COORDINATES
from tests.model import state
from tests.model.at import LAYOUT, At, Phase
from tests.model.driver import Driver, repeat
from tests.model.inputs import deal, prove

if TYPE_CHECKING:
    from effectively_once.epoch.shard_step import ShardStep

TOPIC = "t"
SEEN = pa.schema([("id", pa.string()), *COORDINATES])
Record = tuple[int, str, int]
"""Offset, id and event time."""


@dataclass(frozen=True, slots=True)
class DividedDriver(Driver):
    """Runs a pipeline whose epochs are more than a shard takes. A row has one byte of text: its id.

    Attributes:
        bounds: bytes that a shard takes, as the settings of driver A, of B, and of the third one say.
        pins_bound: whether a repeat goes by the bound of the declaration, not by that of its own driver.
        rest_first: whether what is left is taken before anything else.
        leaves_again: whether the rest is left once more by an epoch that was to take it and was abandoned.

    """

    bounds: tuple[int, int, int] = (1, 2, 3)
    pins_bound: bool = True
    rest_first: bool = True
    leaves_again: bool = True

    @property
    def _bound(self) -> int:
        return self.bounds["ABF".index(self.name)]

    def _declaration(self, declaration: Declaration) -> Declaration:
        return declaration.model_copy(update={"bytes_max": self._bound})

    def _next(self, at: At) -> Phase:
        seen = chain.record_epoch(at.held.head, at.record)
        due = due_epoch.repair(seen) if self.rest_first else None
        if due is None:
            return (yield from Driver._next(self, at))
        floor = state.live(self.pipeline, self.rules, at).floor(due)
        held = yield from self._head(chain.declare(LAYOUT, at.held, due, at.record, floor))
        yield from state.collected(self.pipeline, self.rules, at, held.head.floor)
        yield from self._output_collected(seen.tail[-1])
        return at.holding(held, phase="decide", epoch=due.model_dump_json(), published="")

    def _decide(self, at: At) -> Phase:
        pinned = at.declaration
        start, end = due_epoch.input_of(at.held.head, pinned)[TOPIC]["0"]
        numbered = deal(tuple((offset, *self.pipeline.input[offset]) for offset in range(start, end)))
        records = yield from prove(numbered, self.early, self.rules.proves_records)
        if records is None:
            return repeat(at)
        if not self.pins_bound:
            pinned = pinned.model_copy(update={"bytes_max": self._bound})
        taken, left = self._taken(pinned, records)
        if pinned.is_abandoned and self.leaves_again:
            left = tuple(pinned.after.items())
        new, delta = yield from state.decided(self.pipeline, self.rules, at, [(one, time) for _, one, time in taken])
        return replace(at, phase="record", new=new, delta=delta.model_dump_json(), left=left)

    def _taken(
        self, pinned: Declaration, records: tuple[Record, ...]
    ) -> tuple[list[Record], tuple[tuple[str, tuple[str, int, int]], ...]]:
        """Return the records that the shards take, and where each of them stopped, by the product's code."""
        offsets: list[int] = []
        left: list[tuple[str, tuple[str, int, int]]] = []
        for shard in range(self.pipeline.first):
            rows = [
                {"id": one, "topic": TOPIC, "partition": 0, "offset": offset}
                for offset, one, _ in records
                if self.pipeline.shard(one) == shard
            ]
            task = SimpleNamespace(
                declaration=pinned, pipeline=SimpleNamespace(judged=SEEN, explode=None, digested=COORDINATES.names[1:])
            )
            step = SimpleNamespace(task=task, shard=shard, in_source_order=_in_order, lap=lambda _: None)
            part = division.input_of(cast("ShardStep", step), pa.Table.from_pylist(rows, SEEN).to_batches())
            offsets += part.rows["offset"].to_pylist()
            left += [(str(shard), part.left)] if part.left is not None else []
        return [record for record in records if record[0] in offsets], tuple(left)


def _in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by("offset")
