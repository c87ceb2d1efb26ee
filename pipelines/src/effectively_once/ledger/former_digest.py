"""Digests of rows as versions wrote them whose head has format 2 or 3: read and compared, never written.

Both of its sums are made of one hash of 64 bits, and rows of two words that vary collide in it more often than by
chance (docs/adr/0042).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once import long_texts
from effectively_once.ledger.hashes import PLACE, U64, mix, of_ids

_BYTES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)
_LARGE = (pa.large_string(), pa.large_binary())
_LANE, _NULL = np.uint64(0xD6E8FEB86659FD93), np.uint64(0x2545F4914F6CDD1D)


def of_rows(rows: Iterable[bytes]) -> str:
    """Digest rows that are bytes."""
    return _of_hashes(of_ids(pa.array(rows, pa.large_binary())))


def of_rows_in(table: pa.Table) -> str:
    """Digest rows by their values, each hashed and mixed with the place of its column."""
    sums = np.zeros(table.num_rows, np.uint64)
    places = np.arange(1, table.num_columns + 1, dtype=np.uint64) * PLACE
    for place, column in zip(places, table.columns, strict=True):
        sums += mix(_of_column(column) + place)
    return _of_hashes(mix(sums))


def _of_hashes(hashes: U64) -> str:
    first, second = hashes.sum(dtype=np.uint64), mix(hashes ^ _LANE).sum(dtype=np.uint64)
    return f"{int(second):016x}{int(first):016x}"


def _of_column(column: pa.ChunkedArray) -> U64:
    """Text and bytes by `of_ids`, numbers and times by their bits, nulls as one further value."""
    values = long_texts.whole(column)
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    if any(fits(values.type) for fits in _BYTES):
        kind = pa.large_binary() if values.type in _LARGE else pa.binary()
        hashed = of_ids(pc.fill_null(values.cast(kind), pa.scalar(b"", kind)))
    else:
        flags = pa.types.is_boolean(values.type)
        bits = values.cast(pa.int8()) if flags else values.view(f"int{values.type.bit_width}")
        hashed = pc.fill_null(bits, 0).cast(pa.int64()).to_numpy().astype(np.uint64)
    if nulls is not None:
        hashed[nulls] = _NULL
    return hashed
