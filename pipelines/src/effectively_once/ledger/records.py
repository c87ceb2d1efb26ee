"""What the chain holds, as frozen models: head, declaration, epoch record."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from effectively_once.ledger import checksum, digest

Ranges = dict[str, dict[str, tuple[int, int]]]
"""Topic -> partition (as text, for JSON) -> [start, end) offsets."""

Offsets = dict[str, dict[str, int]]
"""Topic -> partition -> offset."""

FORMAT = 5
"""What this version writes."""

SEALED = 3
"""Since this format head has a checksum."""

READABLE = (2, SEALED, 4, FORMAT)
"""What it reads. Formats 2 to 4 pin no runtime. Formats 2 and 3 have digests of another form, format 2 has no
checksums. Format 1 had other digests still, and no `merged`, `catalog`, `ms` and `bytes`.
"""


SHARD_BYTES = 256 << 20
"""Text that a shard takes of an epoch where its declaration does not say otherwise; its memory is six times that."""

_EMPTY: tuple[object, ...] = (None, {}, [], ())


class Record(BaseModel):
    """Frozen, and strict about unknown fields: a chain written by a newer format is refused, not half understood."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Sparse(Record):
    """A record that is written without what it has not: older versions refuse fields that they do not know.

    Attributes:
        OPTIONAL: fields that are left out where they are empty; a checksum must not change with fields that are new.

    """

    OPTIONAL: ClassVar[frozenset[str]]

    @model_serializer(mode="wrap")
    def _without_what_is_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        told: dict[str, Any] = handler(self)
        return {name: value for name, value in told.items() if name not in self.OPTIONAL or value not in _EMPTY}


class Versioned(BaseModel):
    """As much of head as every format has."""

    format: int


class Rows(Record):
    """How many rows a shard published or decided on, their order-independent digest, and how many bytes they took."""

    rows: int = 0
    digest: str = digest.EMPTY
    bytes: int = 0


class Folded(Rows, Sparse):
    """Rows that state is folded from.

    Attributes:
        largest: no sum of a key and window in them is larger, positive or negative; 2^63 where it may be more. None
            where nothing is summed, and in what older versions wrote.

    """

    OPTIONAL = frozenset({"largest"})

    largest: int | None = None


class Delta(Folded):
    """A delta as the chain records it: an object of its own, or, when small, its columns as JSON right here (R5)."""

    inline: str | None = None


class AsShown(Rows):
    """What a shard shows of an epoch that no repeat could finish: the rows of the input that it is finished with.

    Its digest is that of their source coordinates.

    Attributes:
        key: the object that holds these; None where there are none.
        ids: the shard's delta, where no sink tells the coordinates of its accepted rows: of each id that it names the
            first row in time is one.

    """

    key: str | None = None
    ids: Delta | None = None


Place = tuple[str, int, int]
"""Topic, partition and offset of a record of the input."""

Times = dict[str, dict[str, int]]
"""Topic -> partition -> largest event time (ms since 1970) that it has shown."""


def latest(times: Times, more: Times) -> Times:
    """Return the later of both for each partition."""
    merged = {topic: dict(known) for topic, known in times.items()}
    for topic, found in more.items():
        known = merged.setdefault(topic, {})
        for partition, time in found.items():
            known[partition] = max(time, known.get(partition, time))
    return merged


class Clock(Sparse):
    """How far each partition of the input has come in event time, as an epoch pins it (R6).

    Attributes:
        shown: by epochs before this one. A partition that has shown no time is not in it.
        idle: topic -> partitions that nobody waits for: all of them was read, and nothing came for `idle_ms`.
        sources: each that is registered -> event time before which epochs before this one have read all of its records;
            None of one that has not said how far it is.
        released: sources that nobody waits for: for `hold_max_ms` they have said no later time, and none of theirs was
            read.
        forced_ms: who is behind this time is not waited for: more was held for them than a shard may hold
            (`held_rows_max`). None of nearly all epochs.

    """

    OPTIONAL = frozenset({"sources", "released", "forced_ms"})

    shown: Times = {}
    idle: dict[str, list[str]] = {}
    sources: dict[str, int | None] = {}
    released: tuple[str, ...] = ()
    forced_ms: int | None = None

    @property
    def front_ms(self) -> int | None:
        """How far the partition has come that is furthest ahead, of those that are not idle; None where none shows."""
        times = (
            time
            for topic, partitions in self.shown.items()
            for partition, time in partitions.items()
            if partition not in self.idle.get(topic, [])
        )
        return max(times, default=None)


class Loss(Record):
    """Offsets that the input topic lost before the chain covered them, and that an operator gave up.

    Attributes:
        offsets: what is gone: [start, end) by topic and partition. The epoch's ranges begin at its ends.
        at_ms: when it was given up, ms since 1970.

    """

    offsets: Ranges
    at_ms: int

    @property
    def count(self) -> int:
        """How many records are lost at most: an offset may be that of a transaction's marker."""
        return sum(end - start for partitions in self.offsets.values() for start, end in partitions.values())


class Declaration(Sparse):
    """An epoch about to be published, pinned (R3): whoever publishes it publishes this.

    Attributes:
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
        runtime: what the content depends on beside the wheel: component -> version. Empty in what older versions wrote,
            and where an operator's command has no such thing.

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
    shown: dict[str, AsShown] = {}
    anew: tuple[int, ...] = ()
    repairs: int | None = None
    clock: Clock | None = None
    abandoned: bool | None = None
    lost: Loss | None = None
    tried: tuple[str, ...] = ()
    bytes_max: int | None = None
    reads: Ranges = {}
    after: dict[str, Place] = {}
    came: dict[str, Rows] = {}
    runtime: dict[str, str] = {}

    @property
    def decides(self) -> int | None:
        """What its deltas and recorded outputs are named by beside the epoch; None for those of an ordinary one."""
        return self.anew[-1] if self.anew else None

    def decided(self, generation: int) -> int | None:
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


class Counts(Record):
    """Rows of an epoch; `in` = accepted + duplicate + late + malformed."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    read: int = Field(default=0, alias="in")
    accepted: int = 0
    duplicate: int = 0
    late: int = 0
    malformed: int = 0


class Span(Folded):
    """Deltas of one kind and shard, of all epochs from `first` to `last`, merged into one object that stands for them.

    It holds their rows in order, so its content is decided by the deltas, and its digest is the sum of theirs (R9).
    """

    first: int
    last: int


ByShard = dict[str, Rows]


class EpochRecord(Declaration):
    """An epoch that was published, with what came of it.

    Attributes:
        merged: kind -> shard -> deltas of earlier epochs that were merged in this one, and may go once it is recorded.
        catalog: what the dedup catalog did, summed over the shards.
        ms: milliseconds of the slowest shard, by step.
        before: checksum of the record of the epoch before; None for the first one, and in records of format 2.
        shown_ms: largest event time of each partition, of rows that can be judged: late ones and copies too. Only where
            there is a clock.
        left: the first row of each shard that it did not take, as its input was too large: the next epoch takes the
            rest. Empty of nearly all epochs.
        excess_ms: before this time a shard held more than it may for those who are behind: the next epoch does not wait
            for them. None of nearly all epochs.

    """

    OPTIONAL = Declaration.OPTIONAL | {"before", "shown_ms", "left", "excess_ms"}

    generation: int
    counts: Counts
    max_event_time_ms: int | None
    sinks: dict[str, ByShard]
    deltas: dict[str, dict[str, Delta]]
    merged: dict[str, dict[str, Span]] = {}
    catalog: dict[str, int] = {}
    ms: dict[str, int] = {}
    before: str | None = None
    shown_ms: Times = {}
    left: dict[str, Place] = {}
    excess_ms: int | None = None

    @property
    def leaves_rows(self) -> bool:
        """Whether the next epoch has to take what this one left of its input."""
        return bool(self.left) or (bool(self.shown) and self.repairs is None)

    @property
    def shown_by_now(self) -> Times:
        """What each partition has shown by this epoch and those before it."""
        return latest(self.clock.shown if self.clock else {}, self.shown_ms)

    @property
    def checksum(self) -> str:
        """What the next record has as `before`."""
        return checksum.of(self.model_dump(mode="json", by_alias=True))

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes that each sink published."""
        return {name: sum(rows.bytes for rows in shards.values()) for name, shards in self.sinks.items()}


class Head(Sparse):
    """The one object that orders everything. It changes by conditional puts only (R1).

    Attributes:
        sequence: rises with every change, so that no content ever repeats (an ETag is a digest of the content).
        generation: rises with every driver that takes over.
        owner: random, one per driver process.
        settings: those that state depends on; a change is refused by name.
        last_recorded: -1 before the first epoch.
        floor: deltas of epochs below it are not read by anyone, and may be deleted (R9).
        segments: [first, last] of the epoch records that moved to create-once objects.
        tail: the records after those, dense up to `last_recorded`.
        sink_topics: ids of the topics and tables of the sinks, and of the topic of statements, as the last start found
            them; none in heads of older versions until a driver starts (R10).

    """

    OPTIONAL = frozenset({"sink_topics"})

    format: int = FORMAT
    pipeline: str
    sequence: int = 0
    generation: int
    owner: str
    settings: dict[str, Any]
    last_recorded: int = -1
    declared: Declaration | None = None
    floor: int = 0
    segments: tuple[tuple[int, int], ...] = ()
    tail: tuple[EpochRecord, ...] = ()
    sink_topics: dict[str, str] = {}

    @property
    def last(self) -> Declaration | None:
        """The declared epoch, or else the last recorded one; None before the first."""
        return self.declared or (self.tail[-1] if self.tail else None)

    @property
    def watermark_ms(self) -> int | None:
        """The watermark that the next declaration has to pin where it has no clock (R6)."""
        known: list[int | None] = []
        # An abandoned epoch pins the watermark before its own, so that the next one closes the windows that it did not;
        # one that repairs another pins that one's, and knows of the rows alone which it left.
        for record in reversed(self.tail):
            known += [record.watermark_ms, record.max_event_time_ms]
            if not record.empty:
                break
        return max((time for time in known if time is not None), default=None)

    def encoded(self) -> bytes:
        """Return the object's content, with its checksum."""
        return checksum.sealed(self.model_dump(mode="json", by_alias=True))
