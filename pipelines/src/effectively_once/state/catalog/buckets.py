"""Division of system time into buckets of whole windows."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effectively_once.state.lateness import Windows

Ordinals = NDArray[np.integer[Any]]
"""Numbers of windows in their bucket, from 0; where buckets share one, counted from 1970."""

BUCKET_MS = 600_000
"""Length of a bucket unless windows or lateness ask for another one."""
BUCKETS_OPEN = 16
"""A window and its lateness are no longer than so many buckets: each of them is asked for each id."""

NONE_CLOSED = -(1 << 62)
"""Below the number of any window."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Buckets of `length` windows; number n holds the windows n * length to (n + 1) * length - 1, counted from 1970."""

    windows: Windows
    length: int

    @classmethod
    def of(cls, windows: Windows, bucket_ms: int) -> Buckets:
        """Buckets of about `bucket_ms`: at least one window, and longer where lateness would make too many of them."""
        span_ms = max(bucket_ms, (windows.length_ms + windows.lateness_ms) // BUCKETS_OPEN)
        return cls(windows, max(1, span_ms // windows.length_ms))

    def place(self, times_ms: NDArray[np.int64]) -> tuple[NDArray[np.int64], Ordinals]:
        """Bucket of each time, and which window of the bucket it is in, in as few bytes as tell them apart."""
        windows = times_ms // self.windows.length_ms
        numbers = windows // self.length
        return numbers, (windows - numbers * self.length).astype(np.min_scalar_type(self.length - 1))

    def count_closed(self, number: int, watermark_ms: int | None) -> int:
        """How many windows of a bucket a watermark closes; they are its first ones."""
        first = number * self.length

        def is_open(window: int) -> bool:
            return not self.windows.closed(window * self.windows.length_ms, watermark_ms)

        return bisect_left(range(first, first + self.length), True, key=is_open)

    def first_open(self, watermark_ms: int | None) -> int:
        """Number of the first window that a watermark leaves open, counted from 1970; below all of them without one."""
        if watermark_ms is None:
            return NONE_CLOSED
        # The same as `Windows.closed`, solved for the window.
        return (watermark_ms - self.windows.lateness_ms) // self.windows.length_ms
