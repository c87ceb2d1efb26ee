"""Head, the one object that orders everything, and the formats it is written and read in."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from effectively_once.errors import ChainError
from effectively_once.ledger import checksum
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.record import Sparse, Versioned, reason

FORMAT = 5
"""What this version writes."""

RESHARDED = 6
"""What it writes of a chain whose number of shards has changed: older versions would read a part of its state."""

SEALED = 3
"""Since this format head has a checksum."""

READABLE = (2, SEALED, 4, FORMAT, RESHARDED)
"""What it reads. Formats 2 to 4 pin no runtime. Formats 2 and 3 have digests of another form, format 2 has no
checksums. Format 1 had other digests still, and no `merged`, `catalog`, `ms` and `bytes`.
"""


class Head(Sparse):
    """The one object that orders everything. It changes by conditional puts only (R1).

    Attributes:
        sequence: rises with every change, so that no content ever repeats (an ETag is a digest of the content).
        generation: rises with every driver that takes over.
        owner: random, one per driver process.
        settings: those that state depends on; a change is refused by name, but for `shards`: that is the number of the
            last epoch which was declared.
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
    sink_topics: dict[str, str] = Field(default_factory=dict)

    @property
    def last(self) -> Declaration | None:
        """The declared epoch, or else the last recorded one; None before the first."""
        return self.declared or (self.tail[-1] if self.tail else None)

    @property
    def shards(self) -> int | None:
        """How many shards the last epoch has, declared or recorded; None before the first."""
        return self.last.shards if self.last else None

    def of_shards(self, shards: int) -> Head:
        """Return head as it says that epochs have so many shards from now on."""
        settings = {**self.settings, "shards": shards} if "shards" in self.settings else self.settings
        changed = self.shards not in (None, shards)
        return self.model_copy(update={"settings": settings, "format": RESHARDED if changed else self.format})

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

    def encode(self) -> bytes:
        """Return the object's content, with its checksum."""
        return checksum.seal(self.model_dump(mode="json", by_alias=True))


def decode(body: bytes, key: str) -> Head:
    """Parse head. Raises ChainError when it is damaged or of a format that this version does not read."""
    try:
        content, sealed = checksum.open_sealed(body)
        # The format first: what a newer one added must not look like damage, which is answered with an old backup.
        version = Versioned.model_validate(content).format
        if version not in READABLE:
            raise ChainError(
                f"head has format {version}, this version reads {READABLE[0]} to {READABLE[-1]}",
                key,
                "Use a newer version."
                if version > READABLE[-1]
                else "Let the version that wrote it finish, then begin anew under another name.",
            )
        if not sealed and version >= SEALED:
            raise ValueError("its checksum is missing")
        # It is written in the format of this version from now on.
        return Head.model_validate_json(checksum.canonical({**content, "format": max(version, FORMAT)}))
    except ValueError as wrong:
        raise ChainError(
            f"head cannot be read: {reason(wrong)}",
            key,
            "Restore the object from the bucket's versions or a backup; do not delete it: "
            "the sinks would be published again.",
        ) from wrong
