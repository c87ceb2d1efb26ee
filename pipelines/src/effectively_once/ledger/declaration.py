"""The declaration of an epoch: all that its content depends on, pinned before a row is published (R3)."""

from __future__ import annotations

from pydantic import Field

from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.clock import Clock
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.offsets import Place, Ranges
from effectively_once.ledger.record import Sparse
from effectively_once.ledger.rows import Rows

SHARD_BYTES = 256 << 20
"""Text that a shard takes of an epoch where its declaration does not say otherwise; its memory is six times that."""


class Declaration(Sparse):
    """An epoch about to be published, pinned (R3): whoever publishes it publishes this.

    Attributes:
        shards: P of R4. It may be another one than that of the epoch before (`driver/reshard`).
        clock: where time goes by the partition that is furthest behind; None where it goes by the largest time seen.
        shown: what an operator found of it, by shard, when no repeat could finish it (`effectively-once repair`): these
            shards take the rows that they show and no others. Empty for an ordinary epoch.
        anew: generations of the operators who had it decided anew, in order. What it decides and records has names of
            the last of them, so that what others decided before is in nobody's way, and nobody has to delete it. Empty
            for an ordinary epoch; that of a repair is its epoch's.
        repairs: the epoch before, whose input this one reads once more: it takes the rows that `shown` leaves, or those
            from `after` on. None for every other epoch.
        bytes_max: how many bytes of text a shard takes of its input; the next epoch takes the rest (`epoch/division`).
            None: as many as this version has by default.
        reads: the ranges that an epoch reads which takes the rest of a divided one. Empty: its own, or, where it
            repairs another, that one's.
        after: the first row of each shard that a divided epoch has left. Shards that left none take nothing.
        came: all rows that came to each of these shards, by their coordinates, then and in every part since: where
            others come, some row has another shard than before, and would be lost or doubled.
        abandoned: whether an operator gave it up; stated of every epoch that reads nothing. None for all others, and
            in what older versions wrote.
        lost: what of the input lies between the epoch before and this one, which covers nothing, and is given up
            (`effectively-once accept-loss`). None for every other epoch.
        tried: tables that rows are tried on before any is shown, as somebody added constraints to them. What these
            refuse is recorded, so a constraint that goes or comes changes nothing for a repeat.
        runtime: what the content depends on beside the wheel: component -> version, and in pods the `image`, which is
            for operators alone. Empty in what older versions wrote, and where an operator's command has no such thing.

    """

    OPTIONAL = frozenset(
        {
            "shown",
            "anew",
            "repairs",
            "clock",
            "abandoned",
            "lost",
            "tried",
            "bytes_max",
            "reads",
            "after",
            "came",
            "runtime",
        }
    )

    epoch: int
    lineage: str
    batch_id: int
    ranges: Ranges
    topic_ids: dict[str, str]
    watermark_ms: int | None
    previous_watermark_ms: int | None
    shards: int
    wheel_digest: str
    settings_digest: str
    shown: dict[str, AsShown] = Field(default_factory=dict)
    anew: tuple[int, ...] = ()
    repairs: int | None = None
    clock: Clock | None = None
    abandoned: bool | None = None
    lost: Loss | None = None
    tried: tuple[str, ...] = ()
    bytes_max: int | None = None
    reads: Ranges = Field(default_factory=dict)
    after: dict[str, Place] = Field(default_factory=dict)
    came: dict[str, Rows] = Field(default_factory=dict)
    runtime: dict[str, str] = Field(default_factory=dict)

    @property
    def decides(self) -> int | None:
        """What its deltas and recorded outputs are named by beside the epoch; None for those of an ordinary one."""
        return self.anew[-1] if self.anew else None

    def find_anew(self, generation: int) -> int | None:
        """Return what those were named by that a driver of this generation worked with."""
        return max((each for each in self.anew if each <= generation), default=None)

    @property
    def is_rest(self) -> bool:
        """Whether it takes the rest of a divided epoch, and of no other."""
        return bool(self.after) and not self.shown and not self.abandoned

    @property
    def leaves_again(self) -> bool:
        """Whether it was to take the rest of a divided epoch and was abandoned: the next one takes it."""
        return bool(self.after) and self.is_abandoned

    @property
    def is_abandoned(self) -> bool:
        """Whether an operator gave it up: whoever publishes it publishes nothing, and closes no window.

        Older versions did not state it: of theirs, each epoch that reads nothing is one.
        """
        return self.reads_nothing and self.abandoned is not False

    @property
    def reads_nothing(self) -> bool:
        """Whether it has no input: it was abandoned, or nothing came, as in a lineage that begins on an idle topic."""
        return self.empty and self.repairs is None

    @property
    def empty(self) -> bool:
        """Whether its ranges consume nothing: it reads nothing, or it repairs the one before."""
        spans = [span for partitions in self.ranges.values() for span in partitions.values()]
        return bool(spans) and all(start == end for start, end in spans)

    @property
    def offsets(self) -> int | None:
        """How many records it reads at most; None where an operator pinned which of them it takes."""
        if self.shown:
            return None
        read = self.ranges if self.is_abandoned else self.reads or self.ranges
        return sum(end - start for partitions in read.values() for start, end in partitions.values())
