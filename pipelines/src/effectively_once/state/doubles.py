"""Exact sums of doubles: whole numbers of 2^-1088, in digits of 32 bits, of which those that are not zero are kept.

A finite double is a whole number of 2^-1074. It touches three digits at most, so a sum of amounts is three or four of
them, of five bytes each: which one, and its value. Digits are from -2^31 to 2^31-1: a number has one such form, so that
sums of equal value are equal bytes, whatever they were added up in. The idea is that of Kulisch's long accumulator.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from effectively_once.state.cells import entries, of_entries

POWER = 1088
"""The last digit is of 2^-1088: 14 bits below the smallest double."""
_BITS = 32
_BASE, _HALF = 1 << _BITS, 1 << (_BITS - 1)
_LOW = _BASE - 1
_ENTRY = np.dtype([("place", "u1"), ("digit", "<i4")])
_PLACES = 128
"""More than a sum of 2^31 rows has: a double reaches the 66th."""
_FRACTION = (1 << 52) - 1
LARGE = 63
"""The first place of which a digit may make a sum that no double holds, with 2^31 rows: 2^928 and more."""


class DoubleSums:
    """Merges cells by adding them up."""

    def merge(self, cells: pa.Array, groups: NDArray[np.int64], number: int) -> pa.Array:
        """See `cells.Cells`."""
        content, counts = entries(cells, _ENTRY.itemsize)
        held = content.reshape(-1).view(_ENTRY)
        return _cells(np.repeat(groups, counts) * _PLACES + held["place"], held["digit"].astype(np.int64), number)


def of_column(column: pa.ChunkedArray) -> pa.Array:
    """Return a cell for each of some finite doubles."""
    bits: NDArray[np.int64] = column.to_numpy().view(np.int64)
    exponents = (bits >> 52) & 0x7FF
    fractions = (bits & _FRACTION) | np.where(exponents > 0, 1 << 52, 0)
    # Of 2^-1088; the smallest one stands 14 bits above it.
    shifts = np.maximum(exponents, 1) + (POWER - 1075)
    places, shifts = shifts // _BITS, shifts % _BITS
    low, high = (fractions & _LOW) << shifts, (fractions >> _BITS) << shifts
    high += low >> _BITS
    digits = np.stack([low & _LOW, high & _LOW, high >> _BITS], axis=1) * np.where(bits < 0, -1, 1)[:, None]
    for place in range(2):
        carries = (digits[:, place] + _HALF) >> _BITS
        digits[:, place] -= carries << _BITS
        digits[:, place + 1] += carries
    kept = digits != 0
    return _pack((places[:, None] + np.arange(3))[kept], digits[kept], kept.sum(axis=1))


def total(cell: bytes) -> int:
    """Return what a cell is, in units of 2^-1088."""
    held = np.frombuffer(cell, _ENTRY)
    return sum(
        digit << _BITS * place for place, digit in zip(held["place"].tolist(), held["digit"].tolist(), strict=True)
    )


def nearest(units: int, count: int = 1) -> float | None:
    """Return the double next to so many units through a count, ties to even; None where none is as large."""
    try:
        return units / (count << POWER)
    except OverflowError:
        return None


def largest_place(cells: pa.ChunkedArray) -> int:
    """Return the largest place of any digit of a column of cells."""
    places = [0]
    for chunk in cells.chunks:
        content, _ = entries(chunk, _ENTRY.itemsize)
        places.append(int(content[:, 0].max(initial=0)))
    return max(places)


def _cells(keys: NDArray[np.int64], digits: NDArray[np.int64], number: int) -> pa.Array:
    """Add up digits of equal key (group and place) and carry what is beyond one."""
    keys, digits = _add(keys, digits)
    while (carries := (digits + _HALF) >> _BITS).any():
        moved = np.flatnonzero(carries)
        digits = digits - (carries << _BITS)
        keys, digits = _add(np.concatenate([keys, keys[moved] + 1]), np.concatenate([digits, carries[moved]]))
    keys, digits = keys[digits != 0], digits[digits != 0]
    return _pack(keys % _PLACES, digits, np.bincount(keys // _PLACES, minlength=number))


def _pack(places: NDArray[np.int64], digits: NDArray[np.int64], counts: NDArray[np.int64]) -> pa.Array:
    held = np.empty(len(places), _ENTRY)
    held["place"], held["digit"] = places, digits
    return of_entries(held.view(np.uint8).reshape(-1, _ENTRY.itemsize), counts)


def _add(keys: NDArray[np.int64], digits: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return keys in order, and the sum of the digits of each."""
    # Arrow finds equal ones without a sort of all.
    found = pa.table({"key": keys, "digit": digits}).group_by("key", use_threads=False).aggregate([("digit", "sum")])
    keys, digits = found["key"].to_numpy(), found["digit_sum"].to_numpy()
    order = np.argsort(keys)
    return keys[order], digits[order]
