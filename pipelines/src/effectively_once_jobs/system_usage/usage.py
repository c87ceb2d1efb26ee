"""The pure part of the counting: portions of rows, answers joined to them, and what they add to both counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

ASKED_AT_ONCE = 20
"""Rows of one look-up, and so the rows that one failing look-up concerns."""
SYSTEM = "system"
BOTH = ("transactions", "frauds")
COUNTED = ("id", "user", "partition", "offset", "fraud")
"""Columns of the table of counted events; `fraud` is 0 or 1."""
USAGE = (SYSTEM, "window_start_ms", *BOTH)
"""Columns of the table of both counts: a row is added for each portion, or once for a window that is closed."""


def portions(rows: pa.Table, size: int = ASKED_AT_ONCE) -> Iterator[pa.Table]:
    """Cut rows into the portions that are looked up together, in their order."""
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def with_answers(rows: pa.Table, frauds: Mapping[str, bool]) -> pa.Table:
    """Add the column `fraud` (0 or 1). Of an id that the result store does not know nothing is known to be a fraud."""
    found = [int(frauds.get(one, False)) for one in rows["id"].to_pylist()]
    return rows.append_column("fraud", pa.array(found, pa.int64()))


def add_up(rows: pa.Table, window_ms: int) -> list[tuple[str, int, int, int]]:
    """Return what rows with answers add to both counts: a tuple of the columns `USAGE` for each system and window."""
    times = rows["event_time_ms"]
    # Whole numbers divide towards zero, and times are from 0 on.
    starts = pc.multiply(pc.divide(times, window_ms), window_ms)
    keyed = pa.table({SYSTEM: rows[SYSTEM], "window_start_ms": starts, "fraud": rows["fraud"]})
    sums = keyed.group_by([SYSTEM, "window_start_ms"]).aggregate([("fraud", "count"), ("fraud", "sum")])
    columns = (sums[name].to_pylist() for name in (SYSTEM, "window_start_ms", "fraud_count", "fraud_sum"))
    return sorted(zip(*columns, strict=True))


def as_rows(rows: pa.Table, columns: tuple[str, ...] = COUNTED) -> list[object]:
    """Return some columns of a table as one flat list, row by row, as a statement takes its parameters."""
    return list(chain.from_iterable(zip(*(rows[name].to_pylist() for name in columns), strict=True)))
