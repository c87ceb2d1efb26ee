"""What is done to a declared epoch of which a shard has shown too little: it is finished as it was shown (R10).

The orders of events, and what holds in each, are in docs/adr/0030. No client is imported here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from effectively_once.epoch import as_shown, refusals
from effectively_once.errors import ControlError, StaleDriverError
from effectively_once.ledger import chain, interventions, pinned_version
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, body_of, create_once, run
from effectively_once.operate.abandon.abandonment import Files
from effectively_once.operate.abandon.visible import Finished, Seen, ShownShard, VisibleRows
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.sinks import ToFiles, ToIceberg
from effectively_once.sinks.publish import Mark
from effectively_once.state import catalog
from effectively_once.state.deltas import ShardDeltas

if TYPE_CHECKING:
    # What it declares is data; where its tables are is not.
    from effectively_once.pipeline.pipeline import Pipeline

Say = Callable[[str], object]


@dataclass(frozen=True)
class Mending:
    """What is done to repair an epoch, in its order.

    Attributes:
        shards: of all sinks with marks.
        files: sinks on the object store.
        owner: random, one per command.

    """

    layout: Layout
    store: ObjectStore
    pipeline: Pipeline
    shards: Sequence[ShownShard]
    files: Sequence[Files]
    say: Say = lambda _: None
    owner: str = field(default_factory=lambda: f"repair-{uuid.uuid4().hex}")

    def look(self, declared: Declaration) -> list[int]:
        """Tell what is visible of the epoch, and disturb nobody; return the shards that would be finished as shown.

        Raises:
            SinkError: something else is visible than what the epoch can be finished with.
            ControlError: nothing of it is visible or decided.

        """
        found = self._look(declared, lambda shard: shard.mark())
        for seen in found:
            self.say(seen.line())
        return list(self._find_finished(declared, found))

    def carry_out(
        self, declared: Declaration, wheel_digest: str, runtime: Mapping[str, str] = pinned_version.UNKNOWN
    ) -> None:
        """Replace every driver, look again, and pin the epoch as one that is finished as it is shown.

        Raises:
            SinkError, ControlError: see `look`; nothing was changed then, but drivers were replaced.
            StaleDriverError: a driver started meanwhile.

        """

        def accept(head: Head) -> None:
            if head.declared is None or (head.declared.epoch, head.declared.ranges) != (epoch, declared.ranges):
                raise StaleDriverError(
                    f"epoch {epoch} is not declared any more: a driver is at work",
                    self.layout.head,
                    "Look at the pipeline again; nothing was changed.",
                )

        epoch = declared.epoch
        held = run(chain.take_over(self.layout, self.owner, {}, accept), self.store)
        generation = held.head.generation
        # Whoever had a transaction open has it ended, so what is seen now is all that will be.
        found = self._look(declared, lambda shard: shard.fence(generation))
        finished = self._find_finished(declared, found)
        shown = {
            str(shard): as_shown.write(
                self.store, self.layout.shown_rows(epoch, shard, generation), each.coordinates, each.ids
            )
            for shard, each in finished.items()
        }
        for before, after in self._visible(declared, generation, found, finished):
            self._copy(before, after)
        # Nothing is deleted: this process may have slept, and a driver finished the epoch with what was decided before.
        run(interventions.finish_as_shown(self.layout, held, shown, wheel_digest, runtime), self.store)

    def _find_finished(self, declared: Declaration, found: Sequence[Seen]) -> dict[int, Finished]:
        if not any(seen.marks or seen.decided or self._is_recorded(declared, seen.shard) for seen in found):
            raise ControlError(
                f"no shard shows or has decided on rows of epoch {declared.epoch}",
                self.layout.head,
                "There is nothing to repair: start the pipeline, or `effectively-once abandon` it.",
            )
        finished = ((seen.shard, seen.find_finished(declared)) for seen in found)
        return {shard: each for shard, each in finished if each is not None}

    def _visible(
        self, declared: Declaration, generation: int, found: Sequence[Seen], finished: Mapping[int, Finished]
    ) -> Iterator[tuple[str, str]]:
        """Name what was decided and recorded of what is visible, and the names under which it goes on to count.

        All else was decided of the epoch, maybe on a part of the input, and nobody has seen it: it is decided again.
        What an epoch shows of windows is in the state before it, so nothing visible comes of its own deltas of them.
        """
        epoch, kind, step = declared.epoch, catalog.KIND, self.pipeline.recorded
        for seen in found:
            shard, before = seen.shard, seen.decides(declared)
            if shard in finished and finished[shard].ids is not None:
                yield self.layout.delta(kind, epoch, shard, before), self.layout.delta(kind, epoch, shard, generation)
            kept = [step.name] if step is not None and not seen.unseen else []
            if declared.tried and (seen.marks or seen.files):
                kept.append(refusals.STEP)
            for name in kept:
                of_shard = name, epoch, shard
                yield self.layout.step_record(*of_shard, before), self.layout.step_record(*of_shard, generation)

    def _copy(self, before: str, after: str) -> None:
        body = run(body_of(before), self.store)
        # Of no rows there is no object.
        if body is not None:
            run(create_once(after, body), self.store)

    def _look(self, declared: Declaration, mark_of: Callable[[ShownShard], Mark | None]) -> list[Seen]:
        if self.pipeline.explode is not None:
            raise ControlError(
                "a pipeline whose records have several rows (explode) cannot be repaired yet",
                self.layout.head,
                "Restore chain and sinks from one backup, or give the pipeline another name; nothing was changed.",
            )
        epoch, first = declared.epoch, first_step(self.pipeline)
        marks: dict[int, dict[str, tuple[Mark, VisibleRows]]] = {number: {} for number in range(declared.shards)}
        for shard in self.shards:
            (sink, number), mark = shard.place, mark_of(shard)
            if sink in first and mark is not None and mark.epoch == epoch:
                marks[number][sink] = mark, shard.rows(mark)
        rows = {to.name for to in self.pipeline.rows}
        shown = ((str(each), each.generation(epoch)) for each in self.files if each.name in rows)
        files = {name: generation for name, generation in shown if generation is not None}
        seen = [Seen(number, marks[number], files=files) for number in marks]
        return [replace(each, decided=self._read_decided(declared, each)) for each in seen]

    def _read_decided(self, declared: Declaration, seen: Seen) -> Delta | None:
        if self.pipeline.ids != "attached":
            return None
        log = ShardDeltas(
            self.store, self.layout, catalog.KIND, seen.shard, catalog.canonical, anew=seen.decides(declared)
        )
        return log.read_created(declared.epoch)

    def _is_recorded(self, declared: Declaration, shard: int) -> bool:
        if self.pipeline.recorded is None:
            return False
        key = self.layout.step_record(self.pipeline.recorded.name, declared.epoch, shard, declared.decides)
        return run(body_of(key), self.store) is not None


def first_step(pipeline: Pipeline) -> tuple[str, ...]:
    """Names of the sinks with marks that the first step of an epoch publishes to, in its order."""
    return (*(to.name for to in pipeline.rows if not isinstance(to, ToFiles | ToIceberg)), DEAD_LETTER)
