"""Bytes of the rows of a table: two rows of equal columns have the same bytes exactly when they are equal.

A row is its numbers, eight bytes each, little-endian: of a number, flag or time its bits as a signed number of 64, of
text and bytes their length, of a null 0. Then comes one byte a column, 1 where it is null, and then all text and bytes.
A decimal is 16 bytes, of a whole number of its last digit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_TEXT = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)
_WIDTH = 9
"""Bytes of a column beside its text."""
SLICE_BYTES = 1 << 20
"""Rows are taken in slices of about this size, so that they are in memory once more in small parts only."""


def of_table(table: pa.Table) -> Iterator[list[bytes]]:
    """Give the bytes of the rows in order, some rows at a time.

    Raises:
        pa.ArrowException, ValueError: a column is neither a number of at most 64 bits, nor a decimal, a flag, a time,
            text or bytes.

    """
    size = table.nbytes + _WIDTH * table.num_columns * table.num_rows
    step = max(1, SLICE_BYTES * table.num_rows // max(1, size))
    for first in range(0, table.num_rows, step):
        yield _of(table.slice(first, step))


def _of(table: pa.Table) -> list[bytes]:
    heads = np.zeros(
        table.num_rows, [("numbers", "<i8", (table.num_columns,)), ("nulls", np.uint8, (table.num_columns,))]
    )
    texts = []
    for place, column in enumerate(table.columns):
        values = column.combine_chunks()
        if pa.types.is_decimal128(values.type):
            values = values.view(pa.binary(16))
        if values.null_count:
            heads["nulls"][:, place] = values.is_null().to_numpy(zero_copy_only=False)
        if any(fits(values.type) for fits in _TEXT):
            # Offsets of 64 bits: joined, the text of all columns may have more than 2 GiB.
            content = pc.fill_null(values.cast(pa.large_binary()), b"")
            heads["numbers"][:, place] = pc.binary_length(content).to_numpy()
            texts.append(content)
        else:
            flags = pa.types.is_boolean(values.type)
            bits = values.cast(pa.int8()) if flags else values.view(f"int{values.type.bit_width}")
            heads["numbers"][:, place] = pc.fill_null(bits, 0).to_numpy()
    buffers = [None, pa.py_buffer(heads.view(np.uint8))]
    rows = pa.Array.from_buffers(pa.binary(heads.itemsize), len(heads), buffers)
    if texts:
        nothing = pa.scalar(b"", pa.large_binary())
        rows = pc.binary_join_element_wise(rows.cast(pa.large_binary()), *texts, nothing)
    found: list[bytes] = rows.to_pylist()
    return found
