"""An operator of the model who abandons the declared epoch, by the product's own steps (`abandonment.py`).

What is its own is the order of the steps, which is that of `Abandonment`, and the steps that can be left out.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from effectively_once.errors import StaleDriverError
from effectively_once.ledger import chain, interventions
from effectively_once.ledger.objects import ObjectStore, body_of
from effectively_once.operate.abandon.abandonment import Files, make_record
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.publish import EndHanging, FencedError, Mark, Open, ReadMark, publish
from effectively_once.state import catalog
from tests.model.asked import asking
from tests.model.at import LAYOUT, At, Phase, head_of
from tests.model.outputs import FILES
from tests.model.rules import Kind
from tests.model.shards import ToShard
from tests.model.world import Step

NAME, START = "O", "o_start"


@dataclass(frozen=True, slots=True)
class Operator:
    """Abandons the epoch that is declared when it looks, once.

    Attributes:
        to: shards of the pipeline.
        looks: whether it refuses an epoch of which something is visible.
        publishes: whether the epoch is published over nothing before it is recorded.
        then: the phase that follows; `start` of a driver, or `done`.

    """

    to: tuple[Kind, ...]
    looks: bool = True
    publishes: bool = True
    then: str = "done"

    def phase(self, at: At) -> Phase:
        """Run one phase."""
        step: Phase = getattr(self, f"_{at.phase}")(at)
        return step

    def _o_start(self, at: At) -> Phase:
        """Take head over, if an epoch is declared."""
        body = yield from body_of(LAYOUT.head)
        if body is None or head_of(body).declared is None:
            return At(phase=self.then)
        held = yield from chain.take_over(LAYOUT, NAME, {})
        if held.head.declared is None:
            return At(phase=self.then)
        return at.holding(
            held, phase="o_fence", epoch=held.head.declared.model_dump_json(), kept=(None,) * len(self.to)
        )

    def _o_fence(self, at: At) -> Phase:
        """Open one shard and look at its mark."""
        if at.shard == len(self.to):
            if self.looks and "files" in self.to and (yield from self._shown(at)):
                return At(phase=self.then)
            return replace(at, phase="o_pin", shard=0)
        if self.to[at.shard] != "files":
            producer = yield ToShard(at.shard, 0, Open(at.held.head.generation))
            assert isinstance(producer, int)
            mark = yield ToShard(at.shard, producer, ReadMark())
            if isinstance(mark, Mark):
                if self.looks and mark.epoch == at.declaration.epoch and mark.rows:
                    return At(phase=self.then)
                at = at.keeping((producer, mark))
        return replace(at, shard=at.shard + 1)

    def _o_pin(self, at: At) -> Phase:
        """Pin the epoch over nothing."""
        held = yield from interventions.abandon(LAYOUT, at.held)
        assert held.head.declared is not None
        pinned = held.head.declared.model_dump_json()
        return at.holding(held, phase="o_publish" if self.publishes else "o_record", epoch=pinned)

    def _o_publish(self, at: At) -> Phase:
        """Publish nothing to one shard; when somebody else opened it, go on only as the owner of head."""
        if at.shard == len(self.to):
            return replace(at, phase="o_record", kept=())
        if self.to[at.shard] == "files":
            if "files" not in self.to[: at.shard]:
                epoch, generation = at.declaration.epoch, at.held.head.generation
                yield from asking(lambda store: _files(store).publish_nothing(epoch, generation))
            return replace(at, shard=at.shard + 1)
        try:
            yield from self._nothing(at)
        except FencedError:
            now = yield from chain.read(LAYOUT)
            if now.owner != NAME:
                raise StaleDriverError("a driver started meanwhile", LAYOUT.head, "") from None
            return at.keeping(None)
        return replace(at, shard=at.shard + 1)

    def _o_record(self, at: At) -> Phase:
        """Record the epoch."""
        record = make_record(at.declaration, at.held.head.generation, {}, [catalog.KIND])
        # The model has one shard of deltas for all shards of sinks.
        record = record.model_copy(update={"deltas": {catalog.KIND: {"0": record.deltas[catalog.KIND]["0"]}}})
        yield from chain.record(LAYOUT, at.held, record)
        return At(phase=self.then)

    def _nothing(self, at: At) -> Generator[Step, Any, None]:
        """Publish one shard as `ShardSink` does."""
        producer, before = at.kept[at.shard] or (0, None)
        step = publish(Mark(at.declaration.epoch, at.held.head.generation, 0, ""), before, f"shard {at.shard}")
        try:
            request = next(step)
            while True:
                if isinstance(request, EndHanging):
                    request = step.send(False)
                    continue
                answer = yield ToShard(at.shard, producer, request)
                if isinstance(request, Open):
                    producer, answer = answer, None
                request = step.send(answer)
        except StopIteration:
            return

    def _shown(self, at: At) -> Generator[Step, Any, bool]:
        epoch = at.declaration.epoch
        return (yield from asking(lambda store: _files(store).shows(epoch)))


def _files(store: ObjectStore) -> Files:
    return Files(FILES, ManifestSink(store, LAYOUT, FILES, lambda: NAME))


def stands_still(how: str) -> bool:
    """Whoever repeats an abandoned epoch finds rows that a driver of before published after the last look."""
    return "is published with digest" in how and ("its repeat has  (" in how or f"its repeat has {'0' * 32}" in how)
