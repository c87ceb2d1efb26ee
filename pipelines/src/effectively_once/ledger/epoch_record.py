"""The record of an epoch: its declaration, and what came of it."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from effectively_once.ledger import checksum
from effectively_once.ledger.clock import Times, latest
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.offsets import Place
from effectively_once.ledger.record import Record
from effectively_once.ledger.rows import Rows


class Counts(Record):
    """Rows of an epoch; `in` = accepted + duplicate + late + malformed, and what its record has as `filtered`."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    read: int = Field(default=0, alias="in")
    accepted: int = 0
    duplicate: int = 0
    late: int = 0
    malformed: int = 0


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
        filtered: records that the transform left out, by reason. Empty where it left out none.
        records: of how many records the rows in `counts` and `filtered` are, each counted with its first row. None
            where a record is one row.
        excess_ms: before this time a shard held more than it may for those who are behind: the next epoch does not wait
            for them. None of nearly all epochs.

    """

    OPTIONAL = Declaration.OPTIONAL | {"before", "shown_ms", "left", "filtered", "records", "excess_ms"}

    generation: int
    counts: Counts
    max_event_time_ms: int | None
    sinks: dict[str, ByShard]
    deltas: dict[str, dict[str, Delta]]
    merged: dict[str, dict[str, Span]] = Field(default_factory=dict)
    catalog: dict[str, int] = Field(default_factory=dict)
    ms: dict[str, int] = Field(default_factory=dict)
    before: str | None = None
    shown_ms: Times = Field(default_factory=dict)
    left: dict[str, Place] = Field(default_factory=dict)
    filtered: dict[str, int] = Field(default_factory=dict)
    records: int | None = None
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
