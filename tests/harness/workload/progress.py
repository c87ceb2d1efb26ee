"""What an observer of the chain tells a sender."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Progress:
    """What the chain says: watermark (ms) of the last declared epoch, end offsets (exclusive) per input partition.

    `ends` are those of the last declared epoch, `recorded_ends` those of the last recorded one.
    """

    watermark_ms: int | None = None
    ends: Mapping[int, int] = field(default_factory=dict)
    recorded_ends: Mapping[int, int] = field(default_factory=dict)
