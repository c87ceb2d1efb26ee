"""How a shard ends what hangs of its last transaction: as a transaction of its own, by a protocol step over requests.

For who may not write markers, which takes a right on the cluster (docs/adr/0082). The coordinator knows nothing of what
hangs. But a marker that it writes into a partition ends whatever its producer has open there.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
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
    """Whether each partition still has open what hangs there, and nothing else since."""


@dataclass(frozen=True, slots=True)
class Join:
    """Make these partitions parts of one transaction."""

    begun: Begun


@dataclass(frozen=True, slots=True)
class End:
    """Commit or abort that transaction: its coordinator writes a marker into each of them."""

    begun: Begun
    commit: bool


@dataclass(frozen=True, slots=True)
class Await:
    """Wait until they have their markers."""


EndingRequest = Begin | Look | Join | End | Await
EndingAnswer = Begun | bool | None
Ending = Generator[EndingRequest, EndingAnswer, bool]


def end(found: Sequence[Hanging], where: str, *, commit: bool, half: bool) -> Ending:
    """End what hangs of one transaction, in all its partitions at once, and tell whether it was there still.

    Between `Begin` and `End` nobody else writes under this id: a producer of before is refused. So what is looked at is
    what the markers decide on. Whoever is killed between `Join` and `End` has it dropped: all of it, so that no mark
    stands without its rows, nor rows without their mark.

    Args:
        found: as it was when `commit` was decided.
        where: the shard, for messages.
        commit: show its rows.
        half: the other partition has its part of it already.

    Raises:
        SinkError: the coordinator gave another producer id, whose marker would end nothing; or a half is to be shown.

    """
    place = f"{where}, topic {found[0].topic}, offset {found[0].start}"
    if commit and half:
        raise SinkError(
            "a broker left half of a transaction open whose other half is visible",
            place,
            "Grant `ClusterAction` on the cluster and start the pipeline: a marker shows it, which cannot be cut in "
            "two. Take the right back once the driver's log says that it was ended.",
        )
    begun = yield Begin()
    assert isinstance(begun, Begun)  # noqa: S101 - narrows the answer's type
    if begun.producer_id != found[0].producer_id:
        raise SinkError(
            f"a broker left a transaction open under producer id {found[0].producer_id}, and its coordinator has given "
            f"id {begun.producer_id} since",
            place,
            "Nothing of the shard's own ends it: see what it holds with `kafka-dump-log.sh`, abort it with "
            "`kafka-transactions.sh`, and restore chain and sinks from one backup if an epoch was in it.",
        )
    if not (yield Look()):
        return False
    yield Join(begun)
    yield End(begun, commit)
    yield Await()
    return True
