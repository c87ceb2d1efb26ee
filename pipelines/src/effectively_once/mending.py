"""What is done to a declared epoch of which a shard has shown too little: it is finished as it was shown (R10).

The orders of events, and what holds in each, are in docs/adr/0030. No client is imported here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from effectively_once import as_shown, catalog
from effectively_once.abandonment import Files
from effectively_once.columns import DEAD_LETTER
from effectively_once.deltas import ShardDeltas
from effectively_once.destinations import ToFiles
from effectively_once.errors import ControlError, StaleDriverError
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, ObjectStore, run
from effectively_once.ledger.records import Declaration, Delta, Head
from effectively_once.pipeline import Pipeline
from effectively_once.sinks.publish import Mark
from effectively_once.visible import Finished, Seen, ShownShard, VisibleRows

Say = Callable[[str], object]


@dataclass(frozen=True)
class Mending:
    """What is done to repair an epoch, in its order.

    Attributes:
        shards: of all sinks with marks.
        files: sinks on the object store.

    """

    layout: Layout
    store: ObjectStore
    pipeline: Pipeline
    shards: Sequence[ShownShard]
    files: Sequence[Files]
    say: Say = lambda _: None

    def look(self, declared: Declaration) -> list[int]:
        """Tell what is visible of the epoch, and disturb nobody; return the shards that would be finished as shown.

        Raises:
            SinkError: something else is visible than what the epoch can be finished with.
            ControlError: nothing of it is visible or decided.

        """
        found = self._seen(declared, lambda shard: shard.mark())
        for seen in found:
            self.say(seen.line())
        return list(self._finished(declared, found))

    def carry_out(self, declared: Declaration, wheel_digest: str) -> None:
        """Replace every driver, look again, and pin the epoch as one that is finished as it is shown.

        Raises:
            SinkError, ControlError: see `look`; nothing was changed then, but drivers were replaced.
            StaleDriverError: a driver started meanwhile.

        """

        def accept(head: Head) -> None:
            if head.declared is None or (head.declared.epoch, head.declared.ranges) != (epoch, declared.ranges):
                raise StaleDriverError(
                    f"epoch {epoch} is not declared any more: a driver is at work", self.layout.head,
                    "Look at the pipeline again; nothing was changed.",
                )  # fmt: skip

        epoch = declared.epoch
        held = run(chain.take_over(self.layout, f"repair-{uuid.uuid4().hex}", {}, accept), self.store)
        generation = held.head.generation
        # Whoever had a transaction open has it ended, so what is seen now is all that will be.
        found = self._seen(declared, lambda shard: shard.fence(generation))
        shown = {
            str(shard): as_shown.write(
                self.store, self.layout.shown(epoch, shard, generation), each.coordinates, each.ids
            )
            for shard, each in self._finished(declared, found).items()
        }
        for key in self._unseen(declared, found):
            self.store.answer(Delete(key))
        if shown:
            run(chain.finish_as_shown(self.layout, held, shown, wheel_digest), self.store)

    def _finished(self, declared: Declaration, found: Sequence[Seen]) -> dict[int, Finished]:
        if not any(seen.marks or seen.decided for seen in found):
            raise ControlError(
                f"no shard shows or has decided on rows of epoch {declared.epoch}", self.layout.head,
                "There is nothing to repair: start the pipeline, or `effectively-once abandon` it.",
            )  # fmt: skip
        finished = ((seen.shard, seen.finished(declared)) for seen in found)
        return {shard: each for shard, each in finished if each is not None}

    def _unseen(self, declared: Declaration, found: Sequence[Seen]) -> Iterator[str]:
        """Name what was decided of the epoch, maybe on a part of the input, and nobody has seen: it is decided again.

        What an epoch shows of windows is in the state before it, so nothing visible comes of its own deltas of them.
        """
        for seen in found:
            if seen.leftover:
                yield self.layout.delta(catalog.KIND, declared.epoch, seen.shard)
            if seen.unseen and self.pipeline.recorded is not None:
                yield self.layout.recorded(self.pipeline.recorded.name, declared.epoch, seen.shard)
            for each in self.pipeline.windows:
                yield self.layout.delta(each.name, declared.epoch, seen.shard)

    def _seen(self, declared: Declaration, mark_of: Callable[[ShownShard], Mark | None]) -> list[Seen]:
        epoch, first = declared.epoch, first_step(self.pipeline)
        marks: dict[int, dict[str, tuple[Mark, VisibleRows]]] = {number: {} for number in range(declared.shards)}
        for shard in self.shards:
            (sink, number), mark = shard.place, mark_of(shard)
            if sink in first and mark is not None and mark.epoch == epoch:
                marks[number][sink] = mark, shard.rows(mark)
        rows = {to.name for to in self.pipeline.rows}
        files = [str(each) for each in self.files if each.name in rows and each.shows(epoch)]
        return [Seen(number, marks[number], self._decided(epoch, number), files) for number in marks]

    def _decided(self, epoch: int, shard: int) -> Delta | None:
        if self.pipeline.ids != "attached":
            return None
        return ShardDeltas(self.store, self.layout, catalog.KIND, shard, catalog.canonical).created(epoch)


def first_step(pipeline: Pipeline) -> tuple[str, ...]:
    """Names of the sinks with marks that the first step of an epoch publishes to, in its order."""
    return (*(to.name for to in pipeline.rows if not isinstance(to, ToFiles)), DEAD_LETTER)
