"""What a source says of itself: everything that it had with an event time before some moment is in the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Ranges = Mapping[str, Mapping[str, tuple[int, int]]]
"""As in the ledger, which a gateway knows nothing of."""
SUFFIX = ".sources"
Offset = Annotated[int, Field(ge=0)]


def topic_of(topic: str) -> str:
    """Name of the topic that holds the statements of the sources of an input topic; compacted, keyed by source."""
    return f"{topic}{SUFFIX}"


class Statement(BaseModel):
    """One statement.

    Attributes:
        source: who says it.
        time_ms: ms since 1970. No record of this source with an earlier event time is unsent.
        offsets: by partition of the input: those records lie before this offset.

    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    source: str
    time_ms: int
    offsets: dict[str, Offset]

    def covered(self, topic: str, ranges: Ranges) -> bool:
        """Whether ranges that were read up to their ends hold all that it speaks of."""
        read = ranges.get(topic, {})
        return all(end <= read.get(partition, (0, 0))[1] for partition, end in self.offsets.items())

    def encode(self) -> bytes:
        """Return the value of its message."""
        return self.model_dump_json().encode()


def decode(value: bytes | None) -> Statement | None:
    """Read the value of a message; None for one that is no statement."""
    try:
        return Statement.model_validate_json(value or b"")
    except ValidationError:
        return None
