"""What the files of a run directory hold, as typed values (docs/reference/run-directory.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from infra.errors import UserError
from tests.harness.schemas import SinkSchema

SINKS = ("accepted", "dead_letter", "user_counts", "global_counts")


class EvidenceError(UserError):
    """Evidence is missing, truncated or not readable, so nothing can be judged from it.

    Args:
        what: what is wrong.
        where: the file, with the line where that is known.
        todo: what the reader of the message can do about it.

    """

    def __init__(self, what: str, where: object, todo: str) -> None:
        super().__init__(f"{what}: {where}; {todo}")
        self.what, self.where, self.todo = what, str(where), todo


class RowCountError(EvidenceError):
    """A file is complete (it has its end line) but holds another number of rows than that line says."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class Settings(_Frozen):
    """The settings of the pipeline that a verdict depends on; `campaign` names the stack of a part of a campaign.

    `repair`: whether the run had to come to an epoch that is to be repaired, and to repair it. `rate`: records/s that
    were sent whatever the pipeline did; None: the sender waited for the chain. `gateways`: registered sources that the
    records came from; the pipeline waits for one that says nothing for `hold_max_ms`.
    """

    pipeline: str = ""
    topic: str = "events"
    shards: PositiveInt = 1
    window_ms: PositiveInt = 60_000
    lateness_ms: NonNegativeInt = 0
    sinks: tuple[str, ...] = ()
    campaign: str | None = None
    repair: bool = False
    rate: PositiveFloat | None = None
    gateways: tuple[str, ...] = ()
    hold_max_ms: PositiveInt = 600_000


class PlannedWorkload(_Frozen):
    """Numbers the generator planned, or the rows counted in a user's file."""

    kind: Literal["seeded", "file"]
    sent: int
    duplicates_sent: int = 0
    late_sent: int = 0
    malformed_sent: int = 0


Shows = Literal["duplicated", "missing", "retracted"]
"""Offence that a negative control is built to show."""


class PlannedControl(_Frozen):
    """A negative control, the verdict it must get, and by what; None in a run without faults, which must pass."""

    name: str
    must: Literal["pass", "fail", "unknown"]
    shows: Shows | None = None


class PlannedFaults(_Frozen):
    """How many faults of a kind are planned at a target."""

    kind: str
    target: str
    count: PositiveInt


class PlannedChanges(_Frozen):
    """How many changes of a name are planned: updates of the stack while the pipeline runs."""

    name: str
    count: PositiveInt


class Manifest(_Frozen):
    """`manifest.json`. `faults` says of which kinds the planned faults are, where there is more than one.

    `concurrent_reader`: whether oracle 3 is judged; a run recorded before there was one has no evidence for it.
    `schemas`: what every row of each sink must be; a run recorded before there were any has none.
    `code`: digests of what its drivers run, by package; a run recorded before drivers announced it has none.
    `shows`: what `control` is built to show; controls were all built to show duplicates before it was said.
    """

    format: Literal[1]
    run: str
    claim: str
    seed: int
    started_at: int = 0
    settings: Settings
    workload: PlannedWorkload
    faults_planned: NonNegativeInt
    faults: tuple[PlannedFaults, ...] = ()
    changes: tuple[PlannedChanges, ...] = ()
    concurrent_reader: bool = False
    controls: tuple[PlannedControl, ...] = ()
    schemas: dict[str, SinkSchema] = Field(default_factory=dict)
    versions: dict[str, Any] = Field(default_factory=dict)
    git: dict[str, Any] = Field(default_factory=dict)
    code: dict[str, str] = Field(default_factory=dict)
    control: str | None = None
    shows: Shows = "duplicated"


class EpochCounts(_Frozen):
    """What became of the records of one epoch; `in` of the file is `in_` here."""

    in_: int = Field(alias="in")
    accepted: int
    duplicate: int
    late: int
    malformed: int


class DigestedRows(_Frozen):
    """Number of rows and their order-independent digest (32 hex digits), of one shard."""

    rows: int
    digest: str = ""


class Clock(_Frozen):
    """What an epoch pins of time: who is idle, how far sources are. What partitions have shown the judge finds out.

    `forced_ms`: who is behind this time is not waited for, as shards held too much.
    """

    idle: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    sources: dict[str, int | None] = Field(default_factory=dict)
    released: tuple[str, ...] = ()
    forced_ms: int | None = None

    @property
    def is_forced(self) -> bool:
        """Whether somebody may be left behind: partitions too, and what these have shown is not told here."""
        return self.forced_ms is not None

    def waits_for(self, source: str | None) -> bool:
        """Whether windows wait for a source; for one that is not registered, as far as anybody knows."""
        if source not in self.sources or self.forced_ms is None:
            return source not in self.released
        time = self.sources[source]
        return source not in self.released and time is not None and time >= self.forced_ms


class Lost(_Frozen):
    """Offsets (start, end) that an operator gave up, as the topic had lost them; when, in ms since 1970."""

    offsets: dict[str, dict[int, tuple[int, int]]]
    at_ms: int


class Pinned(DigestedRows):
    """Rows of the input that a shard of an epoch shows, which is finished with these alone; digest of their places.

    `ids` are rows that no sink tells the places of.
    """

    ids: dict[str, Any] | None = None


class Pin(NamedTuple):
    """One of these rows."""

    epoch: int
    shard: str
    source: tuple[str, int, int]


def pin_of(row: Mapping[str, Any]) -> Pin:
    """Check one row of `observed/shown.jsonl`. Raises ValueError, KeyError, TypeError."""
    topic, partition, offset = row["source"]
    if not isinstance(topic, str) or [type(row["epoch"]), type(partition), type(offset)] != [int] * 3:
        raise ValueError(f"{row} is no epoch with (text, number, number)")
    return Pin(row["epoch"], str(row["shard"]), (topic, partition, offset))


class EpochRecord(_Frozen):
    """One epoch of the chain. `ranges` is topic -> partition -> (start, end), end exclusive.

    `shown`: what its shards show, by shard, where an operator had it repaired; `left`: the first row that each shard
    left to the next epoch, as it had more than it takes at once; `repairs`: the epoch before, of whose ranges it takes
    what that one leaves; `reads`, `after`: these ranges, and where it goes on, after a divided one; `filtered`: how
    many records the transform left out, by reason, beside what is in `counts`; `records`: of how many records these
    rows are, where one may have several.
    """

    epoch: int
    generation: int
    lineage: str | None = None
    batch_id: int | None = None
    ranges: dict[str, dict[int, tuple[int, int]]]
    topic_ids: dict[str, str]
    watermark_ms: int | None
    shards: int
    wheel_digest: str | None = None
    settings_digest: str
    counts: EpochCounts
    filtered: dict[str, NonNegativeInt] = Field(default_factory=dict)
    records: NonNegativeInt | None = None
    max_event_time_ms: int | None
    sinks: dict[str, dict[str, DigestedRows]] = Field(default_factory=dict)
    deltas: dict[str, dict[str, DigestedRows]] = Field(default_factory=dict)
    clock: Clock | None = None
    abandoned: bool | None = None
    lost: Lost | None = None
    shown: dict[str, Pinned] = Field(default_factory=dict)
    repairs: int | None = None
    reads: dict[str, dict[int, tuple[int, int]]] = Field(default_factory=dict)
    after: dict[str, tuple[str, int, int]] = Field(default_factory=dict)
    left: dict[str, tuple[str, int, int]] = Field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether its ranges cover no offset."""
        spans = [span for partitions in self.ranges.values() for span in partitions.values()]
        return bool(spans) and all(start == end for start, end in spans)

    @property
    def is_finished_as_shown(self) -> bool:
        """Whether its shards take the rows that they show, and the next epoch takes the rest."""
        return bool(self.shown) and self.repairs is None

    @property
    def leaves_rows(self) -> bool:
        """Whether the next epoch has to take what this one leaves of the input."""
        return bool(self.left) or self.is_finished_as_shown

    @property
    def is_abandoned(self) -> bool:
        """Whether an operator gave it up; where that is not stated, every epoch was that covers and repairs nothing."""
        return self.is_empty and self.repairs is None and self.abandoned is not False

    @property
    def leaves_again(self) -> bool:
        """Whether it was to take the rest of a divided epoch and was abandoned: the rest is left as it was."""
        return bool(self.after) and self.repairs is None

    @property
    def keeps_watermark(self) -> bool:
        """Whether it closes no window: its watermark is that of the epoch before."""
        return self.is_abandoned or self.repairs is not None


class Head(_Frozen):
    """The object every driver fences through. `declared` may be the number or the declaration itself."""

    format: int
    generation: int
    owner: str
    last_recorded: int | None
    declared: int | dict[str, Any] | None
    floor: int | None = None

    @property
    def declared_epoch(self) -> int | None:
        """The declared epoch, or None."""
        return self.declared.get("epoch") if isinstance(self.declared, dict) else self.declared


STATED = 4
"""Since this format of head each record says whether it was abandoned."""


class Chain(_Frozen):
    """`observed/chain.json`."""

    head: Head
    epochs: tuple[EpochRecord, ...]

    @property
    def pinned(self) -> tuple[EpochRecord, ...]:
        """The epochs, and the one that is declared where it is not among them: something of it may be visible."""
        declared = self.head.declared
        if not isinstance(declared, dict) or declared.get("epoch") != len(self.epochs):
            return self.epochs
        # What came of it nobody has recorded.
        counts = dict.fromkeys(("in", "accepted", "duplicate", "late", "malformed"), 0)
        record = {**declared, "generation": self.head.generation, "counts": counts, "max_event_time_ms": None}
        try:
            return type(self).model_validate({"head": self.head, "epochs": [*self.epochs, record]}).epochs
        except ValidationError:
            return self.epochs

    @field_validator("epochs")
    @classmethod
    def _as_stated(cls, epochs: tuple[EpochRecord, ...], read: ValidationInfo) -> tuple[EpochRecord, ...]:
        """Take silence for no where the format demands the word."""
        head = read.data.get("head")
        if head is None or head.format < STATED:
            return epochs
        return tuple(one.model_copy(update={"abandoned": one.abandoned is True}) for one in epochs)


class QuietPartition(_Frozen):
    """Where one output partition ends for a committed and for any reader, and where the late reader ended."""

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int
    read_to: int | None = None


class Quiet(_Frozen):
    """`observed/quiet.json`; `at` is when the ends were asked for, in ms since 1970."""

    at: int | None = None

    partitions: tuple[QuietPartition, ...]
    open_transactions: tuple[Any, ...]


AGAIN = 50_000
"""Records sent again once the windows are closed: all of a run, or at least so many of a longer one, evenly spread."""


class EpilogueStep(_Frozen):
    """One thing the epilogue did, with the number of records it sent again and the last epoch before it.

    `step` is `restart`, with what became of the checkpoint, or `closed`: all windows were by then.
    """

    step: str
    after_epoch: int
    checkpoint: str | None = None
    resent: NonNegativeInt = 0


Boundaries = dict[str, dict[int, int] | int | None]


class Closing(_Frozen):
    """Where sinks ended before the records that close all windows, and after them."""

    before: Boundaries
    after: Boundaries


class Epilogue(_Frozen):
    """`observed/epilogue.json`; a boundary is an end offset per partition, or the last epoch with a manifest.

    `boundary` is that before the first restart, `closing` those before and after the windows were closed.
    """

    boundary: Boundaries
    closing: Closing
    steps: tuple[EpilogueStep, ...]
