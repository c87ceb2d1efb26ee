"""A driver of the model that knows repairs, and whose every sink shows every row, as one shard of a pipeline has it.

It takes its input as the product does (`as_shown.py`), and repairs before anything else, as `Driver` does.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from effectively_once.epoch import as_shown
from effectively_once.ledger import chain, due_epoch
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.objects import ObjectStore
from effectively_once.pipeline.columns import COORDINATES
from tests.model import state
from tests.model.asked import asking
from tests.model.at import LAYOUT, At, Phase
from tests.model.driver import Driver, repeat
from tests.model.inputs import deal, prove
from tests.model.world import Step

if TYPE_CHECKING:
    from effectively_once.epoch.shard_step import ShardStep

TOPIC = "t"
SEEN = pa.schema([("id", pa.string()), ("reason", pa.string()), *COORDINATES])


@dataclass(frozen=True, slots=True)
class MendedDriver(Driver):
    """Runs a pipeline of one shard, whose sinks all show the same rows.

    Attributes:
        attached: rows are told apart by their ids, and a copy is left out; else by their offsets.
        dead_letter: the last sink is that of dead letters, and gets none.
        takes_shown: whether an epoch that is finished as it is shown takes just the rows that are pinned.
        takes_rest: whether its repair takes just the others.
        repairs_first: whether the repair comes before anything else.
        pins_watermark: whether the repair has the watermark of the epoch that it repairs.

    """

    attached: bool = True
    dead_letter: bool = False
    takes_shown: bool = True
    takes_rest: bool = True
    repairs_first: bool = True
    pins_watermark: bool = True

    def _next(self, at: At) -> Phase:
        due = due_epoch.repair(at.held.head) if self.repairs_first else None
        if due is None:
            return (yield from Driver._next(self, at))
        if not self.pins_watermark:
            due = due.model_copy(update={"watermark_ms": at.held.head.watermark_ms})
        floor = state.live(self.pipeline, self.rules, at).floor(due)
        held = yield from chain.declare(LAYOUT, at.held, due, at.record, floor)
        return at.holding(held, phase="decide", epoch=due.model_dump_json(), recovering=True)

    def _declaration(self, declaration: Declaration) -> Declaration:
        return declaration.model_copy(update={"shards": 1})

    def _decide(self, at: At) -> Phase:
        pinned = at.declaration
        # An epoch that repairs another reads that one's ranges; it is the last that was recorded.
        ranges = pinned.ranges if pinned.repairs is None else at.held.head.tail[-1].ranges
        start, end = ranges[TOPIC]["0"]
        numbered = deal(tuple((offset, *self.pipeline.input[offset]) for offset in range(start, end)))
        records = yield from prove(numbered, self.early, self.rules.proves_records)
        if records is None:
            return repeat(at)
        at = replace(at, part=len(records) < end - start)
        taken = yield from self._taken(pinned, records)
        if not self.attached:
            told = tuple(one for _, one, _ in taken), tuple(offset for offset, *_ in taken)
            return replace(at, phase="record", new=told[0], read=told[1], delta=Delta().model_dump_json())
        new, delta = yield from state.decided(self.pipeline, self.rules, at, [(one, time) for _, one, time in taken])
        # The first copy wins (R4).
        first = {one: offset for offset, one, _ in reversed(taken)}
        return replace(
            at, phase="record", new=new, read=tuple(first[one] for one in new), delta=delta.model_dump_json()
        )

    def _taken(
        self, pinned: Declaration, records: tuple[tuple[int, str, int], ...]
    ) -> Generator[Step, Any, tuple[tuple[int, str, int], ...]]:
        """Return the records that the shard takes, by the product's code."""
        if not (self.takes_shown if pinned.repairs is None else self.takes_rest):
            return records
        rows = [{"id": one, "topic": TOPIC, "partition": 0, "offset": offset} for offset, one, _ in records]
        whole = pa.Table.from_pylist(rows, SEEN)

        def take(store: ObjectStore) -> list[int]:
            step = SimpleNamespace(task=SimpleNamespace(declaration=pinned, layout=LAYOUT), shard=0, store=store)
            offsets: list[int] = as_shown.input_of(cast("ShardStep", step), whole)["offset"].to_pylist()
            return offsets

        offsets = yield from asking(take)
        return tuple(record for record in records if record[0] in offsets)

    def _show(self, at: At) -> Phase:
        if not at.part:
            return (yield from Driver._show(self, at))
        return replace(
            at,
            phase="decide",
            attempt=at.attempt + 1,
            part=False,
            new=(),
            read=(),
            delta="",
            value="",
            shard=0,
            staged=(),
            kept=(None,) * len(self.pipeline.to),
        )

    def _rows(self, at: At) -> tuple[str, ...]:
        if self.dead_letter and at.shard == len(self.pipeline.to) - 1:
            return ()
        rows = zip(at.new, at.read, strict=True)
        # What is published to Kafka tells where it was read.
        tells = self.pipeline.to[at.shard] == "kafka"
        return tuple(f"{one}={at.value}" + (f"@{offset}" if tells else "") for one, offset in rows)
