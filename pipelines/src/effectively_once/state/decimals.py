"""Decimals as whole numbers of 64 bits, *lanes*: no sum of theirs is rounded or depends on the order of rows.

A decimal is a whole number of its last digit. Of at most 18 digits it is one lane. Else it is three, of 43 bits each,
the last one signed: a lane has room for the sum of a million rows, and `sums` goes on where one does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from effectively_once import long_texts

SHORT = 18
"""Digits that 64 bits hold."""
MOST = 38
"""Digits of the longest decimal."""
LANES, _BITS = 3, 43
_LOW = (1 << _BITS) - 1
_WIDTH = 16
_EXACT = Context(prec=4_000)
"""No decimal here, nor any finite double, has so many digits."""


def lanes(column: pa.ChunkedArray) -> list[NDArray[np.int64]]:
    """Return the lanes of a column of decimals without nulls: 1 or 3, by its type."""
    whole = column.combine_chunks()
    halves = np.frombuffer(whole.buffers()[1], np.int64).reshape(-1, 2)[whole.offset : whole.offset + len(whole)]
    low, high = halves[:, 0], halves[:, 1]
    if column.type.precision <= SHORT:
        return [low.copy()]
    bits = low.view(np.uint64)
    middle = (bits >> np.uint64(_BITS)).astype(np.int64) | ((high << (64 - _BITS)) & _LOW)
    return [low & _LOW, middle, high >> (2 * _BITS - 64)]


def whole(parts: Sequence[int]) -> int:
    """Return the whole number that lanes, or sums of them, are."""
    return sum(int(part) << _BITS * place for place, part in enumerate(parts))


def of_lanes(parts: Sequence[NDArray[np.int64]], kind: pa.DataType) -> pa.ChunkedArray:
    """Return the decimals that lanes, or sums of them, are; null where they have more digits than the type."""
    if len(parts) == 1:
        (low,) = parts
        halves = np.empty((len(low), 2), np.int64)
        halves[:, 0], halves[:, 1] = low, low >> 63
        beyond = np.zeros(len(low), bool)
        if kind.precision <= SHORT:
            bound = 10**kind.precision
            beyond = (low >= bound) | (low <= -bound)
        valid = pa.py_buffer(np.packbits(~beyond, bitorder="little")) if beyond.any() else None
        return pa.chunked_array([pa.Array.from_buffers(kind, len(low), [valid, pa.py_buffer(halves)])])
    rows = zip(*(part.tolist() for part in parts), strict=True)
    return pa.chunked_array([pa.array([decimal(whole(row), kind) for row in rows], kind)])


def decimal(value: int, kind: pa.DataType) -> Decimal | None:
    """Return so many of the last digit as a decimal; None where it has more digits than the type."""
    return exact(value, kind.scale) if abs(value) < 10**kind.precision else None


def exact(value: int, scale: int) -> Decimal:
    """Return so many of the last digit, which is the `scale`th behind the point."""
    return _EXACT.scaleb(Decimal(value), -scale)


def through_power_of_two(value: int, power: int) -> Decimal:
    """Return value / 2^power, exact."""
    return _EXACT.divide(Decimal(value), Decimal(1 << power))


def text(value: Decimal) -> str:
    """Return all digits of a decimal, those of its scale too, and no exponent."""
    return f"{value:f}"


def as_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return decimals without nulls as 16 bytes each that sort as they do."""
    held = column.combine_chunks()
    halves = np.frombuffer(held.buffers()[1], np.uint64).reshape(-1, 2)[held.offset : held.offset + len(held)]
    turned = np.empty((len(held), 2), ">u8")
    turned[:, 0], turned[:, 1] = halves[:, 1] ^ np.uint64(1 << 63), halves[:, 0]
    fixed = pa.Array.from_buffers(pa.binary(_WIDTH), len(held), [None, pa.py_buffer(turned)])
    return long_texts.divide(pa.chunked_array([fixed.cast(pa.large_binary())]), pa.binary())


def of_bytes(value: bytes, scale: int) -> Decimal:
    """Return what `as_bytes` made bytes of."""
    return exact(int.from_bytes(value, "big") - (1 << 127), scale)
