"""How a shard ends what hangs of its last transaction: as a transaction of its own, by a protocol step over requests.

For who may not write markers, which takes a right on the cluster (docs/adr/0082). The coordinator knows nothing of what
hangs. But a marker that it writes into a partition ends whatever its producer has open there.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from effectively_once.errors import SinkError


@dataclass(frozen=True, slots=True)
class Hanging:
    """An open transaction in one partition, as `kafka-transactions.sh describe-producers` tells it.

    Attributes:
        start: offset of its first record.

    """

    topic: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A producer of the shard, newer than every other."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin anew under the shard's transactional id: whoever used it is fenced, and what they began is aborted."""


@dataclass(frozen=True, slots=True)
class Look:
    """Whether the partition still has open what hangs, and nothing else since."""


@dataclass(frozen=True, slots=True)
class Join:
    """Make the partition part of a transaction."""

    begun: Begun


@dataclass(frozen=True, slots=True)
class End:
    """Commit or abort that transaction: its coordinator writes a marker into the partition."""

    begun: Begun
    commit: bool


@dataclass(frozen=True, slots=True)
class Await:
    """Wait until the partition has its marker."""


EndingRequest = Begin | Look | Join | End | Await
EndingAnswer = Begun | bool | None
Ending = Generator[EndingRequest, EndingAnswer, bool]


def end(hanging: Hanging, where: str, *, commit: bool) -> Ending:
    """End what hangs in one partition, and tell whether it was there still.

    Between `Begin` and `End` nobody else writes under this id: a producer of before is refused. So what is looked at is
    what the marker decides on.

    Args:
        hanging: as it was found when `commit` was decided.
        where: the shard, for messages.
        commit: show its rows.

    Raises:
        SinkError: the coordinator gave another producer id, whose marker would end nothing.

    """
    begun = yield Begin()
    assert isinstance(begun, Begun)  # noqa: S101 - narrows the answer's type
    if begun.producer_id != hanging.producer_id:
        raise SinkError(
            f"a broker left a transaction open under producer id {hanging.producer_id}, and its coordinator has given "
            f"id {begun.producer_id} since",
            f"{where}, topic {hanging.topic}, offset {hanging.start}",
            "Nothing of the shard's own ends it: see what it holds with `kafka-dump-log.sh`, abort it with "
            "`kafka-transactions.sh`, and restore chain and sinks from one backup if an epoch was in it.",
        )
    if not (yield Look()):
        return False
    yield Join(begun)
    yield End(begun, commit)
    yield Await()
    return True
