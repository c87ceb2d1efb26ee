"""Sums and averages of whole numbers, decimals and doubles: exact however rows are divided, rounded once at the end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.state import decimals, doubles, sums
from effectively_once.state.accumulator import SUM_TOO_LARGE, Accumulator, Part

_EXACT_DOUBLE = 2**53
"""Whole numbers up to here are doubles."""
_MORE_DIGITS, _MORE_SCALE = 10, 4
"""Digits that a sum of decimals has beside theirs, and those behind the point of an average: as Spark has them."""


class RowCount(Accumulator):
    """How many rows."""

    parts = (Part("", pa.int64(), "sum"),)
    result = pa.int64()

    def of(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """See Accumulator."""
        return [pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)])]

    def finish(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return kept[0]

    def results(self, kept: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        """See Accumulator."""
        return kept[0]


class NumberSum(Accumulator):
    """Sum of a column of numbers."""

    reason = SUM_TOO_LARGE
    averaged: pa.DataType
    """Type of an average."""

    def __init__(self, column: str) -> None:
        self.column = column

    @abstractmethod
    def average(self, kept: Sequence[Any], count: int) -> Any:
        """Return the sum through a count."""


class WholeSum(NumberSum):
    """Sum of whole numbers."""

    parts = (Part("", pa.int64(), "sum"),)
    result = pa.int64()
    averaged = pa.float64()

    def of(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """See Accumulator."""
        return [rows[self.column].cast(pa.int64())]

    def finish(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return kept[0] if sums.holds(kept[0]) else None

    def results(self, kept: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        """See Accumulator."""
        return kept[0]

    def exact(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return kept[0]

    def size(self, kept: Sequence[pa.ChunkedArray]) -> int:
        """See Accumulator."""
        return sums.largest_of(kept[0])

    def average(self, kept: Sequence[Any], count: int) -> Any:
        """See NumberSum."""
        return kept[0] / count


class DecimalSum(NumberSum):
    """Sum of decimals of at most 38 digits."""

    def __init__(self, column: str, kind: pa.DataType) -> None:
        super().__init__(column)
        number = 1 if kind.precision <= decimals.SHORT else decimals.LANES
        self.parts = tuple(Part("" if number == 1 else f"lane{n}", pa.int64(), "sum") for n in range(number))
        self.result = pa.decimal128(min(decimals.MOST, kind.precision + _MORE_DIGITS), kind.scale)
        more = min(_MORE_SCALE, decimals.MOST - kind.precision)
        self.averaged = pa.decimal128(kind.precision + more, kind.scale + more)

    def of(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """See Accumulator."""
        return [pa.array(lane) for lane in decimals.lanes(rows[self.column])]

    def finish(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return decimals.decimal(decimals.whole(kept), self.result)

    def results(self, kept: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        """See Accumulator."""
        return decimals.of_lanes([lane.to_numpy() for lane in kept], self.result)

    def exact(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return decimals.exact(decimals.whole(kept), self.result.scale)

    def size(self, kept: Sequence[pa.ChunkedArray]) -> int:
        """See Accumulator."""
        whole = decimals.whole([sums.largest_of(lane) for lane in kept])
        bound: int = 10**self.result.precision
        return whole * sums.LANE // bound + 1

    def average(self, kept: Sequence[Any], count: int) -> Any:
        """See NumberSum."""
        scale = self.averaged.scale
        shifted = decimals.whole(kept) * 10 ** (scale - self.result.scale)
        # Halves away from zero, in whole numbers.
        whole = (2 * abs(shifted) + count) // (2 * count)
        return decimals.exact(whole if shifted >= 0 else -whole, scale)


class DoubleSum(NumberSum):
    """Sum of doubles."""

    parts = (Part("", pa.binary(), doubles.DoubleSums()),)
    result = pa.float64()
    averaged = pa.float64()

    def of(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """See Accumulator."""
        return [doubles.of_column(rows[self.column]).cast(pa.binary())]

    def finish(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return doubles.nearest(doubles.total(kept[0]))

    def exact(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return decimals.through_power_of_two(doubles.total(kept[0]), doubles.POWER)

    def size(self, kept: Sequence[pa.ChunkedArray]) -> int:
        """See Accumulator."""
        return sums.LANE if doubles.largest_place(kept[0]) >= doubles.LARGE else 0

    def average(self, kept: Sequence[Any], count: int) -> Any:
        """See NumberSum."""
        return doubles.nearest(doubles.total(kept[0]), count)


class NumberAverage(Accumulator):
    """Average of a column of numbers: no average is beyond what is averaged."""

    def __init__(self, total: NumberSum) -> None:
        self._sum = total
        self.parts = (*(Part(part.name or "sum", part.type, part.how) for part in total.parts), *_COUNT)
        self.result = total.averaged

    def of(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """See Accumulator."""
        return [*self._sum.of(rows), *RowCount().of(rows)]

    def finish(self, kept: Sequence[Any]) -> Any:
        """See Accumulator."""
        return self._sum.average(kept[:-1], kept[-1])

    def results(self, kept: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        """See Accumulator."""
        if isinstance(self._sum, WholeSum) and max(map(sums.largest_of, kept)) <= _EXACT_DOUBLE:
            # One rounding, as both are doubles as they are.
            return pc.divide(*(column.cast(pa.float64()) for column in kept))
        return super().results(kept)


_COUNT = (Part("count", pa.int64(), "sum"),)


def of_numbers(column: str, kind: pa.DataType) -> NumberSum:
    """Return the sum of a column of numbers of some type."""
    if pa.types.is_decimal(kind):
        return DecimalSum(column, kind)
    return DoubleSum(column) if pa.types.is_floating(kind) else WholeSum(column)
