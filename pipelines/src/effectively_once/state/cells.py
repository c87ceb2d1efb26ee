"""Columns of state that Arrow has no sum of: bytes, *cells*, that are merged group by group.

An empty cell is that of no rows: merging it changes nothing.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Merge = Literal["sum", "min", "max"]
"""How two partial results of a column become one; the name is Arrow's own for it."""
Bytes = NDArray[np.uint8]


class Cells(Protocol):
    """How the cells of a group become one. The result depends on their order in nothing."""

    def merge(self, cells: pa.Array, groups: NDArray[np.int64], number: int) -> pa.Array:
        """Return a cell for each group.

        Args:
            cells: `binary` or `large_binary`.
            groups: which group, from 0, each is of.
            number: of groups.

        """
        ...


How = Merge | Cells


def entries(cells: pa.Array, width: int) -> tuple[Bytes, NDArray[np.int64]]:
    """Return the entries of cells, each of `width` bytes, a row each; and how many each cell has."""
    wide = cells.cast(pa.large_binary())
    offsets = np.frombuffer(wide.buffers()[1], np.int64)[wide.offset : wide.offset + len(wide) + 1]
    content = wide.buffers()[2]
    held = np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]] if content is not None else np.empty(0, np.uint8)
    return held.reshape(-1, width), np.diff(offsets) // width


def of_entries(content: Bytes, counts: NDArray[np.int64]) -> pa.Array:
    """Return cells of so many entries each, in order; `content` has an entry a row."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts * content.shape[1], out=offsets[1:])
    held = np.ascontiguousarray(content).reshape(-1)
    return pa.Array.from_buffers(pa.large_binary(), len(counts), [None, pa.py_buffer(offsets), pa.py_buffer(held)])
