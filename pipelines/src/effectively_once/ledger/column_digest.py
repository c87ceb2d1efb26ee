"""Order-dependent digests of columns: equal digests mean equal values in equal order, however they lie in memory."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

from effectively_once import long_texts

_BYTES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)


def of_values(column: pa.ChunkedArray) -> str:
    """128-bit BLAKE2b of a column's values and nulls, as 32 hexadecimal digits.

    Numbers are compared by their bits: 0.0 is not -0.0, and a NaN is the NaN of the same bits.
    """
    hashed = blake2b(digest_size=16)
    for part in _content(long_texts.whole(column)):
        hashed.update(part)
    return hashed.hexdigest()


def _content(column: pa.Array) -> Iterator[bytes]:
    # Not Arrow's own buffers: behind a null they may hold anything, and a slice shares those of the whole.
    if pa.types.is_decimal128(column.type):
        column = column.view(pa.binary(16))
    kind = column.type
    yield pc.is_valid(column).to_numpy(zero_copy_only=False).tobytes()
    if any(fits(kind) for fits in _BYTES):
        values = pc.fill_null(column.cast(pa.large_binary()), b"")
        yield pc.binary_length(values).to_numpy().tobytes()
        yield b"".join(values.to_pylist())
    elif pa.types.is_primitive(kind):
        numbers = column.cast(pa.int8()) if pa.types.is_boolean(kind) else column.view(f"int{kind.bit_width}")
        yield pc.fill_null(numbers, 0).to_numpy().tobytes()
    else:
        yield repr(column.to_pylist()).encode()
