"""Windows and the one rule of lateness (R6)."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_MS = 10**15 - 1
"""Of a window, its lateness and how far a time may be ahead: as far as event times go (`rows.TIME_MAX_MS`).

The sums of such times stay far from where Spark's decimals and Arrow's 64 bits end.
"""


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of `length_ms` that take records until `lateness_ms` after their end.

    One begins at each multiple of `every_ms`, which divides the length; None: where the one before ends. So the windows
    that hold a time are those that hold its pane: the time from where the newest of them begins to where the next one
    does. It lasts as long as that newest window.
    """

    length_ms: int
    lateness_ms: int
    every_ms: int | None = None

    @property
    def slide_ms(self) -> int:
        """From where a window begins to where the next one does."""
        return self.length_ms if self.every_ms is None else self.every_ms

    def start(self, event_time_ms: int) -> int:
        """Start of the newest window that holds a time, and of its pane."""
        return event_time_ms - event_time_ms % self.slide_ms

    def holding(self, pane_ms: int) -> range:
        """Starts of the windows that hold a pane, oldest first."""
        return range(pane_ms - self.length_ms + self.slide_ms, pane_ms + 1, self.slide_ms)

    def closed_by(self, start_ms: int) -> int:
        """Return the least watermark that closes a window."""
        return start_ms + self.length_ms + self.lateness_ms

    def closed(self, start_ms: int, watermark_ms: int | None) -> bool:
        """Window end + allowed lateness <= watermark: its rows are late, its count is final, its ids can go."""
        return watermark_ms is not None and self.closed_by(start_ms) <= watermark_ms

    def newly_closed(self, start_ms: int, previous_ms: int | None, watermark_ms: int | None) -> bool:
        """Tell whether this watermark closes it and the one before did not: emitted in this epoch and in no other."""
        return self.closed(start_ms, watermark_ms) and not self.closed(start_ms, previous_ms)
