"""How a shard of a transactional sink publishes an epoch (R8), as a protocol step over requests to the sink.

The Kafka sink carries these requests out; the two-driver model explores them together with those of the chain.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum

from effectively_once.errors import SinkError


@dataclass(frozen=True, slots=True)
class Mark:
    """Progress mark of one shard of a sink, written in the transaction that holds the epoch's rows."""

    epoch: int
    generation: int
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Open:
    """Get a producer of this shard's transactional id: fences the former one and ends what it left open.

    Answered by None.
    """


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
    UNKNOWN = "unknown"


class Published(StrEnum):
    """What publishing came to: the rows became visible now, or had before."""

    NOW = "now"
    BEFORE = "before"


class FencedError(Exception):
    """Another producer took this shard's transactional id. The task fails; the driver looks at head (R8)."""


SinkRequest = Open | ReadMark | Commit
SinkAnswer = Mark | Committed | None
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
        SinkError: the epoch is there with other rows (R4), or commits keep timing out.

    """
    if kept is None or kept.epoch != ours.epoch - 1:
        mark = yield from _opened()
    else:
        mark = kept
    for _ in range(ATTEMPTS):
        if mark is not None and mark.epoch >= ours.epoch:
            if mark.epoch == ours.epoch and mark.digest != ours.digest:
                raise SinkError(
                    f"epoch {ours.epoch} is published with digest {mark.digest}, its repeat has {ours.digest}",
                    where,
                    "A step of the pipeline is not deterministic: record its outside inputs before it is published.",
                )
            return Published.BEFORE
        answer = yield Commit(ours)
        if answer is Committed.YES:
            return Published.NOW
        if answer is Committed.FENCED:
            raise FencedError(where)
        # Unknown: never abort blindly (KAFKA-17754). A new producer ends the transaction, and the mark tells which way.
        mark = yield from _opened()
    raise SinkError(
        f"{ATTEMPTS} commits of epoch {ours.epoch} had an unknown outcome",
        where,
        "Check the broker; then start again.",
    )


def _opened() -> Generator[SinkRequest, SinkAnswer, Mark | None]:
    yield Open()
    mark = yield ReadMark()
    assert mark is None or isinstance(mark, Mark)  # noqa: S101 - narrows the answer's type
    return mark
