"""Ledger state of windows (R7): aggregates by key and window of one shard, the fold of the deltas of the epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from effectively_once import long_texts
from effectively_once.state import sums
from effectively_once.state.aggregates import Aggregate, Merge, Sum
from effectively_once.state.lateness import Windows

KEY, START = "key", "window_start_ms"
GROUP = (KEY, START)
PARTS = 16
"""Deltas of a window that are kept as they came; one more, and they become one."""


def schema(values: Iterable[str]) -> pa.Schema:
    """Columns of a delta."""
    return pa.schema([(KEY, pa.string()), (START, pa.int64()), *((name, pa.int64()) for name in values)])


def merges(values: Mapping[str, Aggregate]) -> dict[str, Merge]:
    """How partial results of each value become one."""
    return {name: value.merge for name, value in values.items()}


def partial(rows: pa.Table, by: str, values: Mapping[str, Aggregate], windows: Windows) -> pa.Table:
    """Aggregate rows (`by`, `event_time_ms`, columns of the values) to one a key and window: a delta's columns.

    It stands before the shuffle by key: what that moves are keys and windows, not rows.
    """
    return grouped(placed(rows, by, values, windows), merges(values))


def placed(rows: pa.Table, by: str, values: Mapping[str, Aggregate], windows: Windows) -> pa.Table:
    """Return each row as the aggregate of itself alone, in its window."""
    times = rows["event_time_ms"].to_numpy()
    # numpy's remainder is that of `Windows.start`, also before 1970.
    starts = pa.array(times - np.mod(times, windows.length_ms))
    ones = pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)])
    columns = [ones if value.column is None else rows[value.column].cast(pa.int64()) for value in values.values()]
    return pa.table([rows[by], starts, *columns], schema=schema(values))


def grouped(table: pa.Table, how: Mapping[str, Merge]) -> pa.Table:
    """Merge rows of equal key and window; a sum beyond 64 bits takes several rows (`sums`)."""
    return sums.grouped(table, GROUP, how)


def final_of(table: pa.Table, values: Mapping[str, Aggregate]) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Tell results that can be published from those with a sum beyond 64 bits.

    Args:
        table: results, rows of a key and window beside each other; columns of a delta.
        values: what they are.

    Returns:
        The former; of each of the latter a dictionary, exact, in order.

    """
    return sums.separate(table, GROUP, merges(values))


def largest(delta: pa.Table, values: Mapping[str, Aggregate]) -> int | None:
    """Size of the largest sum of a delta; None where the windows have none.

    Counts are left out: none of them comes near 2^63.
    """
    names = summed(values)
    return sums.largest(delta, names) if names else None


def summed(values: Mapping[str, Aggregate]) -> list[str]:
    """Names of the values that may grow beyond 64 bits."""
    return [name for name, value in values.items() if isinstance(value, Sum)]


class WindowState:
    """Aggregates of the windows that are still open in one shard."""

    def __init__(self, windows: Windows, values: Mapping[str, Aggregate]) -> None:
        self._windows, self._how = windows, merges(values)
        self._schema = schema(values)
        self._parts: dict[int, list[pa.RecordBatch]] = {}

    def fold(self, delta: pa.Table) -> None:
        """Add one epoch's delta, or several merged."""
        full: list[pa.RecordBatch] = []
        for start, part in self._by_window(delta.cast(self._schema)):
            parts = self._parts.setdefault(start, [])
            parts.append(part)
            if len(parts) > PARTS:
                full += self._parts.pop(start)
        if full:
            # All at once: event times may be spread over as many windows as there are rows.
            self._parts.update((start, [part]) for start, part in self._by_window(self._one(full)))

    def expire(self, watermark_ms: int | None) -> None:
        """Drop the windows that `watermark_ms` closed: they were emitted in the epoch that pinned it."""
        for start in [s for s in self._parts if self._windows.closed(s, watermark_ms)]:
            del self._parts[start]

    def held(self, watermark_ms: int | None, front_ms: int | None) -> dict[int, int]:
        """Count rows by the start of their window (ms), of windows that `front_ms` would close and `watermark_ms` not.

        They are kept only because somebody is behind that time.
        """
        return {
            start: sum(part.num_rows for part in parts)
            for start, parts in self._parts.items()
            if self._windows.newly_closed(start, watermark_ms, front_ms)
        }

    def final(self, previous_ms: int | None, watermark_ms: int | None) -> pa.Table:
        """Results of the windows that this epoch closes, in order of window and key; columns of a delta."""
        closing = [
            part
            for start, parts in self._parts.items()
            if self._windows.newly_closed(start, previous_ms, watermark_ms)
            for part in parts
        ]
        return long_texts.ordered(self._one(closing), (START, KEY))

    def _by_window(self, rows: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Divide rows by window, each part a copy: a slice would keep all rows in memory until its window closes."""
        for whole in rows.combine_chunks().to_batches() if rows.num_rows else ():
            starts = whole[START].to_numpy()
            order = np.argsort(starts, kind="stable")
            ordered = starts[order]
            bounds = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(starts)]
            places = pa.array(order)
            for begin, end in pairwise(bounds):
                alone = end - begin == len(starts)
                yield int(ordered[begin]), whole if alone else whole.take(places.slice(begin, end - begin))

    def _one(self, parts: Sequence[pa.RecordBatch]) -> pa.Table:
        return grouped(pa.Table.from_batches(parts, self._schema), self._how)


def canonical(delta: pa.Table) -> pa.Table:
    """Return the columns that the rows of a delta are digested by: all of them."""
    return delta
