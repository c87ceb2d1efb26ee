"""A driver of the model: the product's own steps around a pipeline of a few records.

What is its own is the order of the steps (that of `Driver` and of `epoch.py`), what a record is, and the rules that can
be left out.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from effectively_once.epoch import recorded
from effectively_once.errors import SinkError, StaleDriverError
from effectively_once.ledger import chain
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.epoch_record import Counts, EpochRecord
from effectively_once.ledger.held import Held
from effectively_once.ledger.objects import delete_all
from effectively_once.sinks.publish import FencedError
from effectively_once.sinks.staged import StagedFile
from effectively_once.state import catalog
from tests.model import outputs, state
from tests.model.at import LAYOUT, At, Phase
from tests.model.changed import conditional, withheld
from tests.model.inputs import Read, deal, prove
from tests.model.rules import Pipeline, Rules
from tests.model.world import Step

TASK = ("decide", "record", "publish", "aggregate")


@dataclass(frozen=True, slots=True)
class Driver:
    """Runs the pipeline to the end of its input, `rows` records an epoch. `name` is its owner name.

    Where inputs may end early (`early`), to read one is a step of its own, and where a broker may leave a commit open
    (`forgets`), so is to ask for that; elsewhere they would only add states.
    """

    name: str
    rows: int
    pipeline: Pipeline
    rules: Rules
    early: bool = False
    forgets: bool = False

    def phase(self, at: At) -> Phase:
        """Run one phase."""
        step: Phase = getattr(self, f"_{at.phase}")(at)
        return step

    def _start(self, at: At) -> Phase:
        held = yield from self._head(chain.take_over(LAYOUT, self.name, {}))
        at = at.holding(held, phase="next", began=held.head.encode(), kept=(None,) * len(self.pipeline.to))
        declared = held.head.declared
        if declared is None:
            return at
        if not self.rules.r3_repeat_the_declared:
            return at.holding(Held(held.head.model_copy(update={"declared": None}), held.etag))
        return replace(at, phase="decide", epoch=declared.model_dump_json(), recovering=True)

    def _next(self, at: At) -> Phase:
        """Declare the next epoch, or end."""
        seen = chain.record_epoch(at.held.head, at.record)
        last = seen.tail[-1] if seen.tail else None
        start = last.ranges["t"]["0"][1] if last else 0
        end = min(start + self.rows, len(self.pipeline.input))
        if start == end:
            return replace(at, phase="end")
        declaration = Declaration(
            epoch=seen.last_recorded + 1,
            lineage="",
            batch_id=0,
            ranges={"t": {"0": (start, end)}},
            topic_ids={},
            watermark_ms=seen.watermark_ms,
            previous_watermark_ms=last.watermark_ms if last else None,
            shards=len(self.pipeline.to),
            wheel_digest="",
            settings_digest="",
        )
        declaration = self._declaration(declaration)
        text = declaration.model_dump_json()
        floor = state.live(self.pipeline, self.rules, at).floor(declaration)
        if not self.rules.r9_floor_before_deletion:
            yield from state.collected(self.pipeline, self.rules, at, floor)
        if not self.rules.r3_declare_before_publish:
            return replace(at, phase="decide", epoch=text)
        held = yield from self._head(chain.declare(LAYOUT, at.held, declaration, at.record, floor))
        yield from state.collected(self.pipeline, self.rules, at, held.head.floor)
        yield from self._output_collected(last)
        return at.holding(held, phase="decide", epoch=text, published="")

    def _declaration(self, declaration: Declaration) -> Declaration:
        """Return what a pipeline of another kind declares."""
        return declaration

    def _decide(self, at: At) -> Phase:
        """Decide on the ids that are new, from the state that the chain names, and write the delta (R5)."""
        start, end = at.declaration.ranges["t"]["0"]
        records = yield from prove(deal(self.pipeline.input[start:end]), self.early, self.rules.proves_records)
        if records is None:
            return repeat(at)
        new, delta = yield from state.decided(self.pipeline, self.rules, at, records)
        return replace(at, phase="record", new=new, delta=delta.model_dump_json())

    def _record(self, at: At) -> Phase:
        """Run the step that is not deterministic, and record what it gives (R4)."""
        value = "" if self.pipeline.recorded else "-"
        ours = f"{self.name}{at.attempt or ''}"
        if self.pipeline.recorded and at.new:
            value = yield from outputs.record(self.rules, at, ours)
        return replace(at, phase="publish", value=value, shard=0)

    def _publish(self, at: At) -> Phase:
        """Publish one shard (R8)."""
        if self.pipeline.to[at.shard] == "files":
            file = yield from self._staged(at, written=self.rules.r8_file_before_manifest)
            at = replace(at, staged=(*at.staged, (at.shard, file.model_dump_json())))
        else:
            try:
                kept = yield from outputs.to_shard(self.rules, at, self._rows(at), self.forgets)
            except FencedError:
                return replace(at.keeping(None), phase="fenced")
            at = at.keeping(kept if self.pipeline.kept else None)
        at = replace(at, attempt=0, shard=at.shard + 1)
        if at.shard == self._shards(at):
            return replace(at, phase="show")
        return replace(at, phase="aggregate") if at.shard == self.pipeline.first else at

    def _aggregate(self, at: At) -> Phase:
        """Decide on the partials of all shards, which come to the second step as records do to the first."""
        parts = Read(at.new, tuple(map(self.pipeline.shard, at.new)), self.pipeline.first)
        partials = yield from prove(parts, self.early, self.rules.proves_partials)
        if partials is None:
            return repeat(at)
        delta = yield from state.count(self.rules, at, partials)
        if self.pipeline.long:
            partials = yield from state.closing(self.pipeline, self.rules, at)
        return replace(at, phase="publish", partials=partials, counted=delta.model_dump_json())

    def _show(self, at: At) -> Phase:
        """Make the files of all shards visible, when all tasks are done."""
        if at.staged:
            yield from outputs.shown(self.rules, at, self.name)
        if not self.rules.r8_file_before_manifest:
            for shard, kind in enumerate(self.pipeline.to):
                if kind == "files":
                    yield from self._staged(replace(at, shard=shard), written=True)
        return replace(at, phase="finish")

    def _staged(self, at: At, *, written: bool) -> Generator[Step, Any, StagedFile]:
        step = outputs.staged(self.rules, at, self._rows(at), f"{self.name}{at.attempt or ''}")
        return step if written else withheld(step)

    def _rows(self, at: At) -> tuple[str, ...]:
        if at.shard == self.pipeline.first:
            return tuple(f"{one.upper()}={at.value}" for one in at.partials or ())
        return tuple(f"{one}={at.value}" for one in at.new if self._home(at, one) == at.shard)

    def _shards(self, at: At) -> int:
        """Return how many of the pipeline's shards an epoch has: all, unless a driver of another kind says so."""
        return len(self.pipeline.to)

    def _home(self, at: At, one: str) -> int:
        """Return the shard of an id in an epoch."""
        return self.pipeline.shard(one)

    def _deltas(self, at: At) -> dict[str, dict[str, Delta]]:
        """Return what the record says of the decisions."""
        told = {catalog.KIND: at.delta, **({state.COUNTS: at.counted} if self.pipeline.results else {})}
        return {kind: {"0": Delta.model_validate_json(text)} for kind, text in told.items()}

    def _fenced(self, at: At) -> Phase:
        """The task failed; its next attempt looks at head, and goes on only as its owner's."""
        if not self.rules.r8_owner_goes_on:
            raise SinkError("a producer was fenced", f"shard {at.shard}", "")
        now = yield from chain.read(LAYOUT)
        if now.owner != self.name:
            raise StaleDriverError(f"{self.name} was replaced", LAYOUT.head, "")
        return replace(at, phase="publish", attempt=at.attempt + 1)

    def _finish(self, at: At) -> Phase:
        """Merge, and put together the record; a recovered epoch is recorded at once."""
        head, declaration = at.held.head, at.declaration
        merged = yield from state.merged(self.pipeline, self.rules, at)
        record = EpochRecord(
            **declaration.model_dump(),
            generation=head.generation,
            counts=Counts(),
            max_event_time_ms=max((time for one, time in self.pipeline.input if one in at.new), default=None),
            sinks={},
            deltas=self._deltas(at),
            merged=merged,
            left=dict(at.left),
        )
        if not self.rules.r9_output_until_recorded:
            yield from self._output_collected(record)
        after = replace(
            at,
            phase="next",
            epoch="",
            new=(),
            read=(),
            delta="",
            value="",
            shard=0,
            staged=(),
            partials=None,
            counted="",
            left=(),
            recovering=False,
        )
        if at.recovering:
            held = yield from self._head(chain.record(LAYOUT, at.held, record))
            return after.holding(held)
        if not self.rules.r3_declare_before_publish:
            held = yield from self._head(chain.declare(LAYOUT, at.held, declaration, at.record, 0))
            after = after.holding(held)
        return replace(after, published=record.model_dump_json())

    def _end(self, at: At) -> Phase:
        """Stop in order."""
        if at.record is not None:
            yield from self._head(chain.record(LAYOUT, at.held, at.record))
        return At(phase="done")

    def _output_collected(self, of: EpochRecord | None) -> Generator[Step, Any, None]:
        if self.pipeline.recorded and of is not None:
            epoch, anew = of.epoch, of.decides
            yield from delete_all(recorded.records_of((outputs.STEP,), LAYOUT, epoch, 1, anew=anew))

    def _head(self, step: Generator[Any, Any, Held]) -> Generator[Step, Any, Held]:
        return conditional(step, self.rules.r1_conditional_head)


def repeat(at: At) -> At:
    """The task failed before it did anything; another worker repeats it."""
    return replace(at.keeping(None), attempt=at.attempt + 1)
