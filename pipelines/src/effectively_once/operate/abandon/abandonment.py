"""What is done to an epoch that its version cannot finish: it keeps its number, covers nothing and publishes nothing.

An epoch that gives up lost input is published and recorded in the same way (docs/adr/0040). One is abandoned only where
nothing of it is visible. The orders of events, and what holds in each, are in docs/adr/0020. No client is imported
here: the two-driver model runs these steps.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from effectively_once.errors import SinkError, StaleDriverError
from effectively_once.ledger import chain, digest, interventions
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.epoch_record import Counts, EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.held import Held
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.objects import ObjectStore, run
from effectively_once.ledger.pinned_version import describe
from effectively_once.ledger.rows import Rows
from effectively_once.sinks.publish import FencedError, Mark, Published
from effectively_once.sinks.staged import StagedSink
from effectively_once.state import catalog

if TYPE_CHECKING:
    # What it declares is data; where its tables are is not.
    from effectively_once.pipeline.pipeline import Pipeline

ATTEMPTS = 5
"""So often a shard is published to whose producer somebody else replaces, before that is told."""
Say = Callable[[str], object]


class Shard(Protocol):
    """A shard of a sink with marks; named as `sink accepted shard 0`."""

    def mark(self) -> Mark | None:
        """Read the last committed mark, and disturb nobody."""
        ...

    def fence(self, generation: int) -> Mark | None:
        """Open a producer or session, which ends what others left open; then read the mark."""
        ...

    def publish_nothing(self, epoch: int, generation: int) -> Published:
        """Publish an epoch without rows, by the publish protocol; raises what `Sink.publish` raises.

        With the producer of `fence`, if the mark was that of the epoch before: then nobody published in between.
        """
        ...

    def begin(self, epoch: int, generation: int) -> Mark | None:
        """Give a shard that is new to the chain the mark of its last recorded epoch; again, it is a no-op."""
        ...


def shows(mark: Mark | None, epoch: int) -> bool:
    """Whether rows of an epoch are visible, as far as a mark tells; an empty publication shows nothing."""
    return mark is not None and mark.epoch == epoch and (mark.rows, mark.digest) != (0, digest.EMPTY)


@dataclass(frozen=True, slots=True)
class Files:
    """A sink on the object store; one manifest or snapshot an epoch stands for all its shards."""

    name: str
    sink: StagedSink = field(repr=False)

    def shows(self, epoch: int) -> bool:
        """Whether the epoch shows rows."""
        return self.generation(epoch) is not None

    def generation(self, epoch: int) -> int | None:
        """Return that of the driver whose rows the epoch shows; None where it shows none."""
        mark = self.sink.mark_at(epoch)
        return mark.generation if mark is not None and shows(mark, epoch) else None

    def publish_nothing(self, epoch: int, generation: int) -> Published:
        """Show an epoch without rows; raises SinkError when it shows some."""
        return self.sink.publish_staged(epoch, generation, [])[1]

    def begin(self, epoch: int, generation: int) -> None:
        """Show no rows of an epoch before the sink was there, whatever others there are."""
        self.sink.publish_staged(epoch, generation, [], begins=True)

    def __str__(self) -> str:
        """As messages name it."""
        return f"sink {self.name}"


@dataclass(frozen=True)
class Abandonment:
    """What is done to abandon an epoch, in its order.

    Attributes:
        shards: of all sinks with marks.
        files: sinks on the object store.
        kinds: of deltas.
        sinks: how many shards of each sink are published to, as records name them.

    """

    layout: Layout
    store: ObjectStore
    shards: Sequence[Shard]
    files: Sequence[Files]
    kinds: Sequence[str]
    sinks: Mapping[str, int]
    say: Say = lambda _: None

    def refuse_what_is_visible(self, declared: Declaration) -> None:
        """Read every mark and manifest, and disturb nobody.

        Raises:
            SinkError: naming the sinks and shards that show rows of the epoch.

        """
        epoch = declared.epoch
        self._refuse([str(shard) for shard in self.shards if shows(shard.mark(), epoch)], declared)

    def carry_out(self, declared: Declaration) -> None:
        """Replace every driver, see again that nothing is visible, pin the epoch over nothing, publish and record it.

        Raises:
            SinkError, StaleDriverError: see `abandon`.

        """
        epoch = declared.epoch

        def accept(head: Head) -> None:
            if head.declared is None or head.declared.epoch != epoch:
                raise StaleDriverError(
                    f"epoch {epoch} is not declared any more: a driver is at work",
                    self.layout.head,
                    "Look at the pipeline again; nothing was changed.",
                )

        held = run(chain.take_over(self.layout, f"abandon-{uuid.uuid4().hex}", {}, accept), self.store)
        generation = held.head.generation
        # The producers that are opened here publish below: whoever opens another one in between is noticed there.
        self._refuse([str(shard) for shard in self.shards if shows(shard.fence(generation), epoch)], declared)
        self._finish(run(interventions.abandon(self.layout, held), self.store))

    def give_up(self, last: int, loss: Loss, wheel_digest: str) -> None:
        """Replace every driver, and record offsets that are lost in an epoch over nothing, which follows epoch `last`.

        Raises:
            StaleDriverError: the chain does not end with that epoch any more.
            ChainError: the loss does not begin where the chain ends.

        """

        def accept(head: Head) -> None:
            if head.declared is not None or head.last_recorded != last:
                raise StaleDriverError(
                    f"the chain does not end with epoch {last} any more: a driver is at work",
                    self.layout.head,
                    "Look at the pipeline again; nothing was changed.",
                )

        owner = uuid.uuid4().hex
        held = run(chain.take_over(self.layout, f"accept-loss-{owner}", {}, accept), self.store)
        generation = held.head.generation
        for shard in self.shards:
            shard.fence(generation)
        given_up = interventions.give_up(
            self.layout, held, loss, lineage=f"{generation:06d}-{owner[:8]}", wheel_digest=wheel_digest
        )
        self._finish(run(given_up, self.store))

    def _finish(self, held: Held) -> None:
        """Publish the declared epoch, which covers nothing, and record it."""
        declared = held.head.declared
        assert declared is not None  # noqa: S101 - the caller declared it
        every: list[Shard | Files] = [*self.shards, *self.files]
        for each in every:
            self._publish_nothing(each, declared.epoch, held)
        record = make_record(declared, held.head.generation, self.sinks, self.kinds)
        run(chain.record(self.layout, held, record), self.store)

    def _refuse(self, visible: list[str], declared: Declaration) -> None:
        visible += [str(each) for each in self.files if each.shows(declared.epoch)]
        if visible:
            raise SinkError(
                f"epoch {declared.epoch} is visible in {', '.join(visible)}",
                self.layout.head,
                f"The version that declared it has to finish it: {describe(declared)}. "
                "Nothing was published. If its repeats are refused: `effectively-once repair`.",
            )

    def _publish_nothing(self, to: Shard | Files, epoch: int, held: Held) -> None:
        for _ in range(ATTEMPTS):
            try:
                published = to.publish_nothing(epoch, held.head.generation)
            except FencedError:
                self._still_ours(held)
                continue
            except SinkError as error:
                there = to.shows(epoch) if isinstance(to, Files) else shows(to.mark(), epoch)
                if not there:
                    raise
                raise SinkError(
                    f"a driver that still ran published rows of epoch {epoch}, which is abandoned",
                    str(to),
                    "Stop every driver. Then restore chain and sinks from one backup, or take another name.",
                ) from error
            self.say(
                f"{to} " + ("shows nothing of it" if published is Published.NOW else "showed nothing of it before")
            )
            return
        raise SinkError(
            "somebody else keeps opening producers or sessions", str(to), "Stop every driver, then run this again."
        )

    def _still_ours(self, held: Held) -> None:
        now = run(chain.read(self.layout), self.store)
        if now.owner != held.head.owner:
            raise StaleDriverError(
                f"driver {now.owner} of generation {now.generation} started meanwhile",
                self.layout.head,
                "It publishes the epoch over nothing, as it is pinned now. If it does not: stop it, run this again.",
            )


def make_record(declared: Declaration, generation: int, sinks: Mapping[str, int], kinds: Sequence[str]) -> EpochRecord:
    """Return the record of an abandoned epoch: that of any epoch without rows, with empty deltas, as merging counts."""
    of_shards = dict.fromkeys(map(str, range(declared.shards)), Delta())
    return EpochRecord(
        **declared.model_dump(),
        generation=generation,
        counts=Counts(),
        max_event_time_ms=None,
        sinks={name: dict.fromkeys(map(str, range(number)), Rows()) for name, number in sinks.items()},
        deltas=dict.fromkeys(kinds, of_shards),
        # A rest that is abandoned is left once more.
        left=declared.after,
    )


def kinds(pipeline: Pipeline) -> list[str]:
    """Kinds of deltas that every epoch of a pipeline has."""
    return [*([catalog.KIND] if pipeline.ids == "attached" else []), *(each.name for each in pipeline.windows)]


def count_shards(pipeline: Pipeline, number: int) -> dict[str, int]:
    """How many shards of each sink an epoch's record names; those of a sink on the object store count as one."""
    files = dict.fromkeys(pipeline.staged_sinks, 1)
    return {**dict.fromkeys((*pipeline.kafka_sinks, *pipeline.tables), number), **files}


def refuse_missing_sinks(head: Head, pipeline: Pipeline, todo: str) -> None:
    """Refuse a job that lacks a sink of the last epoch: nobody would look whether it shows this one.

    Raises:
        SinkError: naming the sinks.

    """
    known = count_shards(pipeline, 1)
    missing = [name for name in (head.tail[-1].sinks if head.tail else ()) if name not in known]
    if missing:
        raise SinkError(
            f"this job has no sinks {', '.join(missing)}, and the last epoch was published to them",
            f"pipeline {head.pipeline}",
            f"{todo} with the job that has them.",
        )
