"""Ledger state of windows (R7): aggregates by key and window of one shard, the fold of the deltas of the epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.aggregates import Aggregate, Merge
from effectively_once.errors import SinkError
from effectively_once.hashes import U64, of_table
from effectively_once.windows import Windows

KEY, START = "key", "window_start_ms"
PARTS = 16
"""Deltas of a window that are kept as they came; one more, and they become one."""
TOO_LARGE = float(2**63)


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
    """Merge rows of equal key and window.

    Raises:
        SinkError: a sum may be too large for 64 bits.

    """
    for name in [name for name, merge in how.items() if merge == "sum" and table.num_rows]:
        size = pc.abs(table[name].cast(pa.float64(), safe=False))
        # Arrow's sums wrap. Of all rows together first: that takes no grouping.
        if pc.sum(size).as_py() >= TOO_LARGE:
            sizes = table.select([KEY, START]).append_column("size", size).group_by([KEY, START])
            if pc.max(sizes.aggregate([("size", "sum")])["size_sum"]).as_py() >= TOO_LARGE:
                raise SinkError("a sum needs more than 64 bits", f"value {name}", "Sum smaller numbers.")
    done = table.group_by([KEY, START], use_threads=False).aggregate(list(how.items()))
    return done.select([KEY, START, *(f"{name}_{merge}" for name, merge in how.items())]).rename_columns(
        [KEY, START, *how]
    )


class WindowState:
    """Aggregates of the windows that are still open in one shard."""

    def __init__(self, windows: Windows, values: Mapping[str, Aggregate]) -> None:
        self._windows, self._how = windows, merges(values)
        self._schema = schema(values)
        self._parts: dict[int, list[pa.Table]] = {}

    def fold(self, delta: pa.Table) -> None:
        """Add one epoch's delta, or several merged."""
        for start in pc.unique(delta[START]).to_pylist():
            parts = self._parts.setdefault(start, [])
            parts.append(delta.filter(pc.equal(delta[START], start)))
            if len(parts) > PARTS:
                self._parts[start] = [self._one(parts)]

    def expire(self, watermark_ms: int | None) -> None:
        """Drop the windows that `watermark_ms` closed: they were emitted in the epoch that pinned it."""
        for start in [s for s in self._parts if self._windows.closed(s, watermark_ms)]:
            del self._parts[start]

    def final(self, previous_ms: int | None, watermark_ms: int | None) -> pa.Table:
        """Results of the windows that this epoch closes, in order of window and key; columns of a delta."""
        closing = [
            self._one(self._parts[start]).sort_by(KEY)
            for start in sorted(self._parts)
            if self._windows.newly_closed(start, previous_ms, watermark_ms)
        ]
        return pa.concat_tables(closing) if closing else self._schema.empty_table()

    def _one(self, parts: list[pa.Table]) -> pa.Table:
        return grouped(pa.concat_tables([part.cast(self._schema) for part in parts]), self._how)


def canonical(delta: pa.Table) -> U64:
    """Return the hash each row of a delta is digested by."""
    return of_table(delta)
