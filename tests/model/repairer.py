"""An operator of the model who repairs the declared epoch: the product's own `Mending`, request by request."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from effectively_once.errors import ControlError, SinkError
from effectively_once.ledger.objects import Delete, ObjectStore, Put, body_of
from effectively_once.operate.abandon.abandonment import Files
from effectively_once.operate.abandon.mending import Mending
from effectively_once.operate.abandon.visible import VisibleRows
from effectively_once.pipeline.columns import COORDINATES, DEAD_LETTER
from effectively_once.pipeline.sinks import AnySink, ToFiles, ToKafka, ToTable
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.publish import Mark, Open, ReadMark
from effectively_once.state import catalog
from tests.model.asked import asking
from tests.model.at import LAYOUT, At, Phase, head_of
from tests.model.changed import conditional
from tests.model.mended import TOPIC
from tests.model.outputs import FILES, STEP
from tests.model.rules import Kind, Pipeline
from tests.model.shards import Look, ToShard
from tests.model.world import Step

if TYPE_CHECKING:
    from effectively_once.pipeline.pipeline import Pipeline as Declared

START = "r_start"


@dataclass(frozen=True, slots=True)
class Repairer:
    """Repairs the epoch that is declared when it looks, once.

    Attributes:
        name: as owner of head.
        pipeline: what the model runs.
        attached, dead_letter: as of `MendedDriver`.
        then: the phase that follows; `start` of a driver, or `done`.
        opens: whether it opens a shard before it looks.
        looks_at: the sinks that it looks at; None for all with marks.
        pins_conditionally: whether it writes head only where nobody else did.
        deletes: whether it deletes what is decided anew, as it once did.

    """

    name: str
    pipeline: Pipeline
    attached: bool = True
    dead_letter: bool = False
    then: str = "done"
    opens: bool = True
    looks_at: tuple[int, ...] | None = None
    pins_conditionally: bool = True
    deletes: bool = False

    def phase(self, at: At) -> Phase:
        """Run one phase."""
        step: Phase = getattr(self, f"_{at.phase}")(at)
        return step

    def _r_start(self, at: At) -> Phase:
        """Look whether an epoch is declared that can be repaired, as `repair` does."""
        body = yield from body_of(LAYOUT.head)
        declared = None if body is None else head_of(body).declared
        if declared is None or declared.repairs is not None:
            return At(phase=self.then)
        return At(phase="r_mend", epoch=declared.model_dump_json())

    def _r_mend(self, at: At) -> Phase:
        step = asking(lambda store: self._mending(store).carry_out(at.declaration, ""))
        try:
            yield from conditional(_deleting(step) if self.deletes else step, self.pins_conditionally)
        except ControlError:
            # Nothing of it is visible or decided.
            return At(phase=self.then)
        return At(phase=self.then)

    def _mending(self, store: ObjectStore) -> Mending:
        to, names = self.pipeline.to, _sinks(self.pipeline, self.dead_letter)
        declared = _declared(self.pipeline, self.attached, self.dead_letter)
        shards = [_Shown(store, number, name, self) for number, name in enumerate(names) if to[number] != "files"]
        files = [Files(FILES, ManifestSink(store, LAYOUT, FILES, lambda: self.name))] if FILES in to else []
        seen = [each for each in shards if self.looks_at is None or each.number in self.looks_at]
        return Mending(LAYOUT, store, declared, seen, files, owner=self.name)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A shard of a sink, as the command asks what it shows."""

    store: ObjectStore
    number: int
    name: str
    by: Repairer

    @property
    def place(self) -> tuple[str, int]:
        """See ShownShard."""
        return self.name, 0

    def mark(self) -> Mark | None:
        """See ShownShard."""
        return cast(Mark | None, self._ask(ReadMark()))

    def fence(self, generation: int) -> Mark | None:
        """See ShownShard."""
        if self.by.opens:
            self._ask(Open(generation))
        return self.mark()

    def rows(self, mark: Mark) -> VisibleRows:
        """See ShownShard."""
        where = f"sink {self.name}"
        if self.by.pipeline.to[self.number] == "table":
            return VisibleRows(where, None if mark.rows else COORDINATES.empty_table())
        shown = cast(tuple[str, ...] | None, self._ask(Look(mark)))
        if shown is None:
            raise SinkError("its rows are not those of its mark", where, "Run this again.")
        found = [{"topic": TOPIC, "partition": 0, "offset": int(row.split("@")[1])} for row in shown]
        return VisibleRows(where, pa.Table.from_pylist(found, COORDINATES))

    def _ask(self, request: Any) -> object:
        # A store of the model answers whatever can be asked of its world.
        return self.store.answer(cast(Any, ToShard(self.number, 0, request)))


def _deleting(step: Generator[Step, Any, None]) -> Generator[Step, Any, None]:
    """Carry out a repair that deletes what was decided before it pins the epoch."""
    try:
        request = next(step)
        while True:
            if isinstance(request, Put) and request.key == LAYOUT.head:
                declared = head_of(request.body).declared
                if declared is not None and declared.anew:
                    yield Delete(LAYOUT.delta(catalog.KIND, declared.epoch, 0))
            request = step.send((yield request))
    except StopIteration:
        return


def _sink(kind: Kind, name: str) -> AnySink:
    match kind:
        case "kafka":
            return ToKafka(name)
        case "table":
            return ToTable(name)
    return ToFiles(name)


@cache
def _declared(pipeline: Pipeline, attached: bool, dead_letter: bool) -> Declared:
    """Return what a repair asks of the product's declaration of a pipeline."""
    named = zip(pipeline.to, _sinks(pipeline, dead_letter), strict=True)
    asked = SimpleNamespace(
        ids="attached" if attached else "coordinates",
        windows=(),
        recorded=SimpleNamespace(name=STEP) if pipeline.recorded else None,
        explode=None,
        rows=tuple(_sink(kind, name) for kind, name in named if name != DEAD_LETTER),
    )
    return cast("Declared", asked)


def _sinks(pipeline: Pipeline, dead_letter: bool) -> list[str]:
    """Names of the sinks, in order."""
    names = [FILES if kind == "files" else f"sink_{number}" for number, kind in enumerate(pipeline.to)]
    return [*names[:-1], DEAD_LETTER] if dead_letter else names
