"""Fixed windows and the one rule of lateness (R6)."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_MS = 10**15 - 1
"""Of a window, its lateness and how far a time may be ahead: as far as event times go (`rows.TIME_MAX_MS`).

The sums of such times stay far from where Spark's decimals and Arrow's 64 bits end.
"""


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of `length_ms` that take records until `lateness_ms` after their end."""

    length_ms: int
    lateness_ms: int

    def start(self, event_time_ms: int) -> int:
        """Start of the window that holds a time."""
        return event_time_ms - event_time_ms % self.length_ms

    def closed(self, start_ms: int, watermark_ms: int | None) -> bool:
        """Window end + allowed lateness <= watermark: its rows are late, its count is final, its ids can go."""
        return watermark_ms is not None and start_ms + self.length_ms + self.lateness_ms <= watermark_ms

    def newly_closed(self, start_ms: int, previous_ms: int | None, watermark_ms: int | None) -> bool:
        """Tell whether this watermark closes it and the one before did not: emitted in this epoch and in no other."""
        return self.closed(start_ms, watermark_ms) and not self.closed(start_ms, previous_ms)
