"""Values of any type as what sorts as they do: whole numbers of 64 bits, or bytes. State holds nothing else.

A double is its bits, those of negative ones turned over, so that -0.0 comes before 0.0 and no two differ and are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from effectively_once.state import decimals

_SIGN = np.uint64(1 << 63)
_REST = np.int64(2**63 - 1)
_1970, _DAY_1970 = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1).toordinal()
_TEXTS = (pa.string(), pa.binary())
_BITS = {pa.int64(): 64, pa.int32(): 32, pa.date32(): 32, pa.timestamp("us", "UTC"): 64}


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a type are as well kept as whole numbers of 64 bits: all but texts, bytes, long decimals."""
    return kind not in _TEXTS and not (pa.types.is_decimal(kind) and kind.precision > decimals.SHORT)


def numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return a column without nulls as whole numbers that sort as its values do; see `is_number`."""
    kind = column.type
    if pa.types.is_floating(kind):
        bits: NDArray[np.int64] = column.to_numpy().view(np.int64)
        return np.where(bits < 0, bits ^ _REST, bits)
    if pa.types.is_decimal(kind):
        return decimals.lanes(column)[0]
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).to_numpy().astype(np.int64)  # type: ignore[no-any-return]
    return column.cast(f"int{_BITS[kind]}").to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def of_numbers(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return what `numbers` made whole numbers (int64) of."""
    if pa.types.is_floating(kind):
        held: NDArray[np.int64] = values.to_numpy()
        return pa.chunked_array([np.where(held < 0, held ^ _REST, held).view(np.float64)], kind)
    if pa.types.is_decimal(kind):
        return decimals.of_lanes([values.to_numpy()], kind)
    if pa.types.is_boolean(kind):
        return values.cast(pa.int8()).cast(kind)
    return values.cast(f"int{_BITS[kind]}").cast(kind)


def as_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without nulls as bytes (`binary`) that sort as its values do."""
    kind = column.type
    if kind in _TEXTS:
        return column.cast(pa.binary())
    if not is_number(kind):
        return decimals.as_bytes(column)
    return pa.chunked_array([big_endian(numbers(column))])


def big_endian(values: NDArray[np.int64]) -> pa.Array:
    """Return whole numbers as eight bytes each that sort as they do."""
    turned = (values.view(np.uint64) ^ _SIGN).astype(">u8")
    fixed = pa.Array.from_buffers(pa.binary(8), len(turned), [None, pa.py_buffer(turned)])
    return fixed.cast(pa.binary())


def of_bytes(values: Iterable[bytes], kind: pa.DataType) -> pa.Array:
    """Return what `as_bytes` made bytes of."""
    if kind in _TEXTS:
        return pa.array(values, pa.binary()).cast(kind)
    if not is_number(kind):
        return pa.array([decimals.of_bytes(value, kind.scale) for value in values], kind)
    held = pa.chunked_array([pa.array([int.from_bytes(value, "big") - 2**63 for value in values], pa.int64())])
    return of_numbers(held, kind).combine_chunks()


def as_json(value: Any) -> Any:
    """Return a value as JSON has it, as messages do: of bytes their hexadecimal digits, of a decimal its digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return decimals.text(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def of_json(value: Any, kind: pa.DataType) -> Any:
    """Return a value of a type that `as_json` made JSON of."""
    if kind == pa.binary():
        return bytes.fromhex(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_date32(kind):
        return date.fromisoformat(value)
    return datetime.fromisoformat(value) if pa.types.is_timestamp(kind) else value


def moment(value_us: int) -> datetime:
    """Return a time, microseconds since 1970."""
    return _1970 + timedelta(microseconds=value_us)


def day(value: int) -> date:
    """Return a date, days since 1970."""
    return date.fromordinal(value + _DAY_1970)
