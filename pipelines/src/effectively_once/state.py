"""Ledger state of a windowed count (R7): counts by window and key of one shard, the fold of `counts` deltas."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from effectively_once.windows import Windows

KIND = "counts"
SCHEMA = pa.schema([("user", pa.string()), ("window_start_ms", pa.int64()), ("count", pa.int64())])


class WindowCounts:
    """Counts of the windows that are still open in one shard."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._by_window: dict[int, dict[str, int]] = {}

    def fold(self, delta: pa.Table) -> None:
        """Add one epoch's delta."""
        columns = (delta[name].to_pylist() for name in SCHEMA.names)
        for user, start_ms, count in zip(*columns, strict=True):
            counts = self._by_window.setdefault(start_ms, {})
            counts[user] = counts.get(user, 0) + count

    def expire(self, watermark_ms: int | None) -> None:
        """Drop the windows that `watermark_ms` closed: they were emitted in the epoch that pinned it."""
        for start in [s for s in self._by_window if self._windows.closed(s, watermark_ms)]:
            del self._by_window[start]

    def final(self, previous_ms: int | None, watermark_ms: int | None) -> list[tuple[str, int, int]]:
        """(user, window start, count) of the windows that this epoch closes, in order of window and user."""
        return [
            (user, start, count)
            for start in sorted(self._by_window)
            if self._windows.newly_closed(start, previous_ms, watermark_ms)
            for user, count in sorted(self._by_window[start].items())
        ]


def canonical(delta: pa.Table) -> Iterable[bytes]:
    """Return the bytes each row of a delta is digested by."""
    columns = (delta[name].to_pylist() for name in SCHEMA.names)
    return (f"{user}|{start}|{count}".encode() for user, start, count in zip(*columns, strict=True))
