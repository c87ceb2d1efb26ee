"""The dedup catalog of one shard: ids accepted, by the window of their event time (S3, exact, in its smallest form).

State before epoch N is the fold of the `ids` deltas of epochs < N. An id leaves when its window is closed: a copy that
comes later is late by its own event time, which is fixed with the id at its first send (R6), and never gets here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from effectively_once.windows import Windows

KIND = "ids"
SCHEMA = pa.schema([("id", pa.string()), ("event_time_ms", pa.int64())])


class Catalog:
    """Ids that are live in one shard."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._by_window: dict[int, set[str]] = {}

    def fold(self, delta: pa.Table) -> None:
        """Add the ids of one epoch's delta."""
        ids, times = delta["id"].to_pylist(), delta["event_time_ms"].to_pylist()
        for identity, time_ms in zip(ids, times, strict=True):
            self._by_window.setdefault(self._windows.start(time_ms), set()).add(identity)

    def expire(self, watermark_ms: int | None) -> None:
        """Drop the windows that `watermark_ms` closes."""
        for start in [s for s in self._by_window if self._windows.closed(s, watermark_ms)]:
            del self._by_window[start]

    def decide(self, ids: Sequence[str]) -> list[bool]:
        """Which rows are new, in order of their source coordinates: of two copies in one epoch the first wins (R4).

        Every live window is asked, not only the row's own: a copy whose time was changed on the way is still a copy.
        """
        live = list(self._by_window.values())
        now: set[str] = set()
        new = []
        for identity in ids:
            known = identity in now or any(identity in window for window in live)
            if not known:
                now.add(identity)
            new.append(not known)
        return new

    def __len__(self) -> int:
        """Live ids."""
        return sum(map(len, self._by_window.values()))


def canonical(delta: pa.Table) -> Iterable[bytes]:
    """Return the bytes each row of a delta is digested by: the id."""
    return (identity.encode() for identity in delta["id"].to_pylist())
