"""What keeps values one by one, and at most so many of them: the least ones, so that no order of merging matters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from effectively_once import long_texts
from effectively_once.state import extremes, ordered, sums
from effectively_once.state.accumulator import TOO_MANY_DISTINCT, Accumulator, Part
from effectively_once.state.cells import entries, of_entries

_NUMBER, _LONG = 8, 16
"""Bytes of a value that is a number of 64 bits, and of any other."""
_TEXTS = (pa.string(), pa.binary())
_VALUE_BYTES = 64
"""Of a value in an array: a decimal of 38 digits, or quotes; escaped, and a comma."""
_HEAD = 4
"""Bytes that tell the length of a collected value."""


@dataclass(frozen=True, slots=True)
class LeastOnes:
    """Merges sets of entries of equal width to the set of their `most` least ones."""

    width: int
    most: int

    def merge(self, cells: pa.Array, groups: NDArray[np.int64], number: int) -> pa.Array:
        """See `cells.Cells`."""
        content, counts = entries(cells, self.width)
        of = np.repeat(groups, counts)
        words = content.copy().view(">u8").astype(np.uint64)
        order = np.lexsort([*words.T[::-1], of])
        of, words, content = of[order], words[order], content[order]
        new = np.ones(len(of), bool)
        new[1:] = (of[1:] != of[:-1]) | (words[1:] != words[:-1]).any(axis=1)
        of, content = of[new], content[new]
        # Which one of its group each is.
        ranks = np.arange(len(of)) - np.searchsorted(of, of)
        kept = ranks < self.most
        return of_entries(content[kept], np.bincount(of[kept], minlength=number))


class Distinct(Accumulator):
    """How many values there are, up to a bound."""

    result = pa.int64()
    reason = TOO_MANY_DISTINCT

    def __init__(self, column: str, kind: pa.DataType, most: int) -> None:
        self.column, self.kind, self.most = column, kind, most
        self._width = _NUMBER if ordered.is_number(kind) else _LONG
        # One more tells that there are more.
        self.parts = (Part("", pa.binary(), LeastOnes(self._width, most + 1)),)

    def of(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """See Accumulator."""
        column = rows[self.column]
        if pa.types.is_floating(self.kind):
            # -0.0 is 0.0.
            column = pc.add(column, 0.0)
        held = ordered.as_bytes(column)
        return [held if self.kind not in _TEXTS else _hashes(held)]

    def finish(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        number = len(kept[0]) // self._width
        return number if number <= self.most else None

    def exact(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        found = self.finish(kept)
        return f"more than {self.most}" if found is None else found

    def size(self, kept: Sequence[pa.ChunkedArray]) -> int:
        """See Accumulator."""
        most = sums.largest_of(pc.binary_length(kept[0])) // self._width
        return most * (sums.LANE // (self.most + 1) + 1)


@dataclass(frozen=True, slots=True)
class FirstOnes:
    """Merges lists of entries, each behind its length, to that of their `most` least ones."""

    most: int

    def merge(self, cells: pa.Array, groups: NDArray[np.int64], number: int) -> pa.Array:
        """See `cells.Cells`."""
        found: list[list[bytes]] = [[] for _ in range(number)]
        for group, cell in zip(groups.tolist(), cells.to_pylist(), strict=True):
            found[group] += _parts(cell)
        # Lengths stand before what they are of: entries, not cells, are in order.
        kept = (islice(sorted(set(some)), self.most) for some in found)
        return pa.array([b"".join(map(_frame, some)) for some in kept], pa.large_binary())


class Collected(Accumulator):
    """The first values, as a text: an array of JSON."""

    result = pa.string()

    def __init__(self, column: str, kind: pa.DataType, most: int) -> None:
        self.column, self.kind = column, kind
        self.parts = (Part("", pa.binary(), FirstOnes(most)),)
        self.texts = most if kind in _TEXTS else 0
        self.json_bytes = most * _VALUE_BYTES

    def of(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """See Accumulator."""
        return [pa.array(map(_frame, extremes.in_order(rows, self.column).to_pylist()), pa.binary())]

    def finish(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        values = extremes.values(_parts(kept[0]), self.kind).to_pylist()
        return orjson.dumps(values, default=ordered.as_json).decode()


def _hashes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    encoded = long_texts.whole(column).dictionary_encode()
    known = pa.array([blake2b(one, digest_size=_LONG).digest() for one in encoded.dictionary.to_pylist()], pa.binary())
    return pa.chunked_array([known.take(encoded.indices)])


def _frame(part: bytes) -> bytes:
    return len(part).to_bytes(_HEAD, "big") + part


def _parts(cell: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(cell):
        begin = at + _HEAD
        at = begin + int.from_bytes(cell[at:begin], "big")
        yield cell[begin:at]
