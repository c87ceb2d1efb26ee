"""The least and largest value of a column, and the value of the first and last row: whatever merges first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from effectively_once import long_texts
from effectively_once.state import ordered
from effectively_once.state.accumulator import Accumulator, Part

Which = Literal["min", "max"]
_TEXTS = (pa.string(), pa.binary())
_TIME, _PLACE = 8, 12
"""Bytes of the event time, and of partition and offset."""


class Extreme(Accumulator):
    """The least or largest value."""

    def __init__(self, column: str, kind: pa.DataType, which: Which) -> None:
        self.column, self.kind = column, kind
        self.parts = (Part("", pa.int64() if ordered.is_number(kind) else pa.binary(), which),)
        # Whole numbers of 32 bits come as what sums of them are.
        self.result = pa.int64() if kind == pa.int32() else kind
        self.texts = int(kind in _TEXTS)

    def of(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """See Accumulator."""
        column = rows[self.column]
        return [pa.array(ordered.numbers(column)) if ordered.is_number(self.kind) else ordered.as_bytes(column)]

    def finish(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return self.results([pa.chunked_array([pa.array(kept, self.parts[0].type)])])[0].as_py()

    def results(self, kept: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        """See Accumulator."""
        if ordered.is_number(self.kind):
            return ordered.of_numbers(kept[0], self.result)
        if self.kind in _TEXTS:
            return kept[0].cast(self.result)
        return pa.chunked_array([ordered.of_bytes(kept[0].to_pylist(), self.result)])


class EndOfTime(Accumulator):
    """Value of the row that comes first or last, by event time, topic, partition and offset: no two rows are equal."""

    def __init__(self, column: str, kind: pa.DataType, which: Which) -> None:
        self.column, self.kind = column, kind
        self.parts = (Part("", pa.binary(), which),)
        self.result = pa.int64() if kind == pa.int32() else kind
        self.texts = int(kind in _TEXTS)

    def of(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """See Accumulator."""
        return [in_order(rows, self.column)]

    def finish(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return values(kept, self.result)[0].as_py()

    def results(self, kept: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        """See Accumulator."""
        return pa.chunked_array([values(kept[0].to_pylist(), self.result)])


def in_order(rows: pa.Table, column: str) -> pa.ChunkedArray:
    """Return each row's value as bytes that sort as the rows do, and are of no other row.

    They are event time, topic, a zero byte, which no topic has, partition, offset and value.
    """
    partitions = rows["partition"].to_numpy().astype(">u4")
    fixed = pa.Array.from_buffers(pa.binary(4), rows.num_rows, [None, pa.py_buffer(partitions)])
    parts = (
        ordered.big_endian(rows["event_time_ms"].to_numpy()),
        rows["topic"],
        pa.scalar(b"\0"),
        fixed,
        ordered.big_endian(rows["offset"].to_numpy()),
        ordered.as_bytes(rows[column]),
    )
    wide = [part.cast(pa.large_binary()) for part in parts]
    joined = pc.binary_join_element_wise(*wide, pa.scalar(b"", pa.large_binary()))
    return long_texts.divide(joined, pa.binary())


def values(cells: Iterable[bytes], kind: pa.DataType) -> pa.Array:
    """Return the values of what `in_order` made bytes of."""
    return ordered.of_bytes([cell[cell.index(0, _TIME) + 1 + _PLACE :] for cell in cells], kind)
