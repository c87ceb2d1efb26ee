"""Columns with more text or bytes than one array of Arrow's takes: its offsets have 32 bits, which end at 2 GiB.

A table's column is then several arrays, of the type that authors and sinks know. What has to see all values at once
takes one array with offsets of 64 bits. Nothing of it costs a column that fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

ARRAY_BYTES = 1 << 30
"""So much text goes into one array: half of what offsets reach, as the JVM rounds up to a power of two."""
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def wide(column: pa.ChunkedArray, times: int = 1) -> pa.ChunkedArray:
    """Return a column with offsets of 64 bits (`large_string`, `large_binary`) where it is long, else as it is.

    `times` is how often each of its values may come in what is made of it.
    """
    long = column.type in _LARGE and column.nbytes * times > ARRAY_BYTES
    return column.cast(_LARGE[column.type]) if long else column


def whole(column: pa.ChunkedArray) -> pa.Array:
    """All values as one array, as `wide` gives them."""
    return wide(column).combine_chunks()


def take(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Return rows of a table in a given order, each at most once or each at least once."""
    return pa.table([_take(column, rows) for column in table.columns], schema=table.schema)


def sort(table: pa.Table, by: Sequence[str]) -> pa.Table:
    """Return a table in ascending order of some columns."""
    return take(table, pc.sort_indices(table, [(name, "ascending") for name in by]).to_numpy())


def divide(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column as one of offsets of 32 bits, `kind`, in as many arrays as it needs."""
    return column if column.type == kind else _take(column, np.arange(len(column)), kind)


def _take(column: pa.ChunkedArray, rows: NDArray[np.int64], kind: pa.DataType | None = None) -> pa.ChunkedArray:
    times = 1 if len(rows) <= len(column) else int(np.bincount(rows).max())
    values, kind = wide(column, times).combine_chunks(), kind or column.type
    if values.type == kind:
        return pa.chunked_array([values.take(pa.array(rows))])
    parts = [values.take(pa.array(part)).cast(kind) for part in _parts(values, rows)]
    return pa.chunked_array(parts, kind)


def _parts(values: pa.Array, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Divide rows into parts whose values fit one array."""
    sizes = pc.fill_null(pc.binary_length(values), 0).to_numpy()[rows]
    ends = np.cumsum(sizes)
    first = 0
    while first < len(rows):
        before = int(ends[first] - sizes[first])
        last = max(first + 1, int(np.searchsorted(ends, before + ARRAY_BYTES, side="right")))
        yield rows[first:last]
        first = last
