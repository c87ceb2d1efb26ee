"""How a shard of a transactional sink publishes an epoch (R8), as a protocol step over requests to the sink.

The sinks for Kafka and PostgreSQL carry these requests out; the two-driver model explores them together with those of
the chain.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger.rows import Rows


@dataclass(frozen=True, slots=True)
class Mark:
    """Progress mark of one shard of a sink, written in the transaction that holds the epoch's rows."""

    epoch: int
    generation: int
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Open:
    """Get a producer, or a session, for this shard: fences the former one and ends what it left open.

    Answered by None. Where fencing is by generation (PostgreSQL), none older than this one commits any more.
    """

    generation: int = 0


@dataclass(frozen=True, slots=True)
class EndHanging:
    """End what the server has finished and left open of this shard, as it was finished.

    Answered by whether there was something. It hides the mark, and the next commit would decide on its rows again.

    Attributes:
        kept: a producer is to go on. Then the answer is yes also where it cannot be told: it is opened anew.

    """

    kept: bool = False


@dataclass(frozen=True, slots=True)
class ReadMark:
    """The last committed mark of this shard, or None."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Rows and mark in one transaction. Answered by a `Committed`."""

    mark: Mark


class Committed(StrEnum):
    """How a commit ended."""

    YES = "yes"
    FENCED = "fenced"
    REFUSED = "refused"
    """The mark that is there did not allow it; nothing was written."""
    UNKNOWN = "unknown"


class Published(StrEnum):
    """What publishing came to: the rows became visible now, or had before."""

    NOW = "now"
    BEFORE = "before"


class FencedError(Exception):
    """Another producer, or a newer generation, took this shard. The task fails; the driver looks at head (R8)."""


C_contra = TypeVar("C_contra", contravariant=True)


class Sink(Protocol[C_contra]):
    """A sink, or one shard of it: rows of an epoch and its progress mark become visible together, and once."""

    def publish(self, epoch: int, generation: int, rows: C_contra, /) -> tuple[Rows, Published]:
        """Publish an epoch's rows, or find that they were published before; return their number and digest.

        Raises:
            FencedError: somebody else took over; this sink may be asked again once head was looked at.
            SinkError: the epoch is there with other rows (R4), or no repeat can help.
            UnreachableError: the server does not answer; the sink may be asked again.

        """
        ...


SinkRequest = Open | EndHanging | ReadMark | Commit
SinkAnswer = Mark | Committed | bool | None
Publishing = Generator[SinkRequest, SinkAnswer, Published]

ATTEMPTS = 5
"""Commits of unknown outcome in a row before the task gives up; each waited for the producer's full time-out."""


def publish(ours: Mark, kept: Mark | None, where: str) -> Publishing:
    """Publish one epoch of one shard.

    Args:
        ours: the mark that goes with the rows.
        kept: the mark that the producer at hand committed last, None when there is no producer at hand. A kept producer
            is used only for the epoch after its mark: then nobody published for this shard in between, or its commit is
            fenced.
        where: the shard, for messages.

    Raises:
        FencedError: see there.
        SinkError: the epoch is there with other rows (R4), epochs before it are not there (R10), or commits keep timing
            out.

    """
    if kept is None or kept.epoch != ours.epoch - 1 or (yield EndHanging(kept=True)):
        mark = yield from _open(ours.generation)
    else:
        mark = kept
    for _ in range(ATTEMPTS):
        if mark is not None and mark.epoch >= ours.epoch:
            if mark.epoch == ours.epoch and mark.digest != ours.digest:
                raise SinkError(
                    f"epoch {ours.epoch} is published with digest {mark.digest}, its repeat has {ours.digest}",
                    where,
                    "A step of the pipeline is not deterministic: record its outside inputs before it is published. "
                    "What is visible stays: `effectively-once repair` tells how to go on.",
                )
            return Published.BEFORE
        # Every epoch writes a mark in every shard: where the one before lacks it, the sink has lost what it had shown.
        refuse_outside(mark, ours.epoch - 1, ours.epoch, where)
        answer = yield Commit(ours)
        if answer is Committed.YES:
            return Published.NOW
        if answer is Committed.FENCED:
            raise FencedError(where)
        if answer is Committed.REFUSED:
            mark = yield from _read()
            if mark is None or mark.epoch < ours.epoch:
                refuse_outside(mark, ours.epoch - 1, ours.epoch, where)
                raise FencedError(where)
            continue
        # Unknown: never abort blindly (KAFKA-17754). A new producer ends the transaction, and the mark tells which way.
        mark = yield from _open(ours.generation)
    raise SinkError(
        f"{ATTEMPTS} commits of epoch {ours.epoch} had an unknown outcome",
        where,
        "Check the sink's server; then start again.",
    )


def begin(ours: Mark, where: str) -> Generator[SinkRequest, SinkAnswer, Mark]:
    """Give a shard that is new to a chain the mark of its last recorded epoch, over nothing; return the one it has now.

    Again, it is a no-op, and so is one of a driver that slept meanwhile.

    Args:
        ours: the mark.
        where: the shard, for messages.

    Raises:
        FencedError: see there.
        UnreachableError: whether it was committed is not known.

    """
    mark = yield from _open(ours.generation)
    if mark is not None and mark.epoch >= ours.epoch:
        return mark
    answer = yield Commit(ours)
    if answer is Committed.YES:
        return ours
    if answer is Committed.UNKNOWN:
        raise UnreachableError(
            f"whether the mark of epoch {ours.epoch} was committed is not known",
            where,
            "Check the sink's server; then run this again.",
        )
    raise FencedError(where)


def refuse_outside(mark: Mark | None, low: int, high: int, where: str) -> None:
    """Refuse a mark that does not lie between two epochs, where the chain says that it has to (R10).

    Raises:
        SinkError: with what was found.

    """
    number = mark.epoch if mark is not None else -1
    if not low <= number <= high:
        raise SinkError(
            f"progress mark {number} lies outside the chain's {low} to {high}: the sink or the chain was "
            "recreated or restored from a backup",
            where,
            "Restore both from one backup, or give the pipeline another name to publish everything anew.",
        )


def _open(generation: int) -> Generator[SinkRequest, SinkAnswer, Mark | None]:
    yield Open(generation)
    yield EndHanging()
    return (yield from _read())


def _read() -> Generator[SinkRequest, SinkAnswer, Mark | None]:
    mark = yield ReadMark()
    assert mark is None or isinstance(mark, Mark)  # noqa: S101 - narrows the answer's type
    return mark
