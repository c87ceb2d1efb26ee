"""Shards of transactional sinks, as hashable values: what was committed, and who may commit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from effectively_once.sinks.publish import Commit, Committed, EndHanging, Mark, Open, ReadMark, SinkRequest

Reply = Mark | Committed | bool | int | tuple[str, ...] | None
S = TypeVar("S", bound="Shard")


@dataclass(frozen=True, slots=True)
class Look:
    """What is visible of the epoch of a mark that was read. Answered by rows; None where the mark is another by now."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class ToShard:
    """A request to a shard, by the producer that `Open` gave (0: none yet), with the rows that a commit brings."""

    shard: int
    producer: int
    request: SinkRequest | Look
    rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shard(ABC):
    """What is common to both kinds.

    Attributes:
        rows: what committed readers see, with its epoch.
        mark: the mark of the last commit.
        undecided: a commit of which only the server will know how it ends.

    """

    rows: tuple[tuple[int, str], ...] = ()
    mark: Mark | None = None
    undecided: ToShard | None = None

    @property
    def ended(self: S) -> S:
        """The same, with nothing that the server has finished left open."""
        return self

    def visible_of(self, mark: Mark) -> tuple[str, ...] | None:
        """What is visible of the last epoch."""
        return tuple(row for epoch, row in self.rows if epoch == mark.epoch) if mark == self.mark else None

    def hanging(self: S, step: ToShard) -> S | None:
        """Return the shard when a commit is finished and left open; None: this server does not do that."""
        return None

    @abstractmethod
    def replies(self: S, step: ToShard) -> Iterator[tuple[Reply, S]]:
        """Return the answer to a request, and the shard after it."""

    def unknown(self: S, step: ToShard) -> Iterator[S]:
        """Every shard there may be when the answer to a commit got lost, which would have been yes."""
        yield replace(self, undecided=step)
        yield self.committed(step)

    def committed(self: S, step: ToShard) -> S:
        """Return the shard after a commit."""
        assert isinstance(step.request, Commit)
        mark = step.request.mark
        rows = self.rows + tuple((mark.epoch, row) for row in step.rows)
        return replace(self, rows=rows, mark=mark, undecided=None)


@dataclass(frozen=True, slots=True)
class KafkaShard(Shard):
    """A new producer of the transactional id aborts what the former one left open, and fences it.

    A commit that was finished and left open (KAFKA-20734) is of nobody: only who knows it ends it. What its producer
    does next ends both alike.
    """

    producer: int = 0
    left_open: ToShard | None = None

    @property
    def ended(self) -> KafkaShard:
        """See Shard."""
        if self.left_open is None:
            return self
        return Shard.committed(replace(self, left_open=None), self.left_open)

    def hanging(self, step: ToShard) -> KafkaShard | None:
        """See Shard."""
        return replace(self, left_open=step) if self.left_open is None else None

    def committed(self, step: ToShard) -> KafkaShard:
        """See Shard."""
        return Shard.committed(self.ended, step)

    def replies(self, step: ToShard) -> Iterator[tuple[Reply, KafkaShard]]:
        """See Shard."""
        match step.request:
            case Open():
                both = None if self.undecided is not None else self.left_open
                opened = replace(self, producer=self.producer + 1, undecided=None, left_open=both)
                yield opened.producer, opened
            case EndHanging():
                yield self.left_open is not None, self.ended
            case ReadMark():
                yield self.mark, self
            case Look(mark):
                yield self.visible_of(mark), self
            case Commit():
                if step.producer != self.producer:
                    yield Committed.FENCED, self
                else:
                    yield Committed.YES, self.committed(step)


@dataclass(frozen=True, slots=True)
class TableShard(Shard):
    """A row of the table of marks. Any open session may commit, if epoch and generation of the row allow it.

    An undecided commit holds the lock of the row: whoever wants to write it waits until the commit has taken place,
    which is a happening of its own, or until it is rolled back, as here. `_FENCE` and `_ADVANCE` are in
    sinks/postgres.py; the last three fields leave their conditions out.
    """

    generation: int = 0
    by_epoch: bool = True
    by_generation: bool = True
    raised_on_open: bool = True

    def replies(self, step: ToShard) -> Iterator[tuple[Reply, TableShard]]:
        """See Shard."""
        match step.request:
            case Open(generation):
                raised = max(self.generation, generation) if self.raised_on_open else self.generation
                yield 0, replace(self, generation=raised, undecided=None)
            case EndHanging():
                yield False, self
            case ReadMark():
                yield self.mark and replace(self.mark, generation=self.generation), self
            case Look(mark):
                yield self.visible_of(replace(mark, generation=self.mark.generation) if self.mark else mark), self
            case Commit(mark):
                unlocked = replace(self, undecided=None)
                if self._allows(mark):
                    yield Committed.YES, unlocked.committed(step)
                else:
                    yield Committed.REFUSED, unlocked

    def committed(self, step: ToShard) -> TableShard:
        """See Shard."""
        assert isinstance(step.request, Commit)
        # Without arguments super() does not work in a class with slots.
        after = Shard.committed(self, step)
        return replace(after, generation=step.request.mark.generation)

    def _allows(self, mark: Mark) -> bool:
        epoch = self.mark.epoch if self.mark else -1
        return (not self.by_epoch or epoch == mark.epoch - 1) and (
            not self.by_generation or self.generation <= mark.generation
        )
