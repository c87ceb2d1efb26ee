"""What an observer of the chain tells a sender."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Progress:
    """Of the last declared epoch: its watermark in ms, and its end offsets (exclusive) by input partition."""

    watermark_ms: int | None = None
    ends: Mapping[int, int] = field(default_factory=dict)
