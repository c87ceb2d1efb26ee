"""Which accumulator an aggregate has, by the types of its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from effectively_once.state import bounded, extremes, number_sums
from effectively_once.state.accumulator import Accumulator
from effectively_once.state.aggregates import (
    Aggregate,
    Average,
    Collect,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    OwnAggregate,
    Sum,
)
from effectively_once.state.own import Own


def accumulators(values: Mapping[str, Aggregate], columns: pa.Schema) -> dict[str, Accumulator]:
    """Return what is kept of each value over rows of some columns; `mistakes` has taken them."""
    return {name: _of(value, columns) for name, value in values.items()}


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a type are added up."""
    return kind in (pa.int64(), pa.int32(), pa.float64()) or pa.types.is_decimal128(kind)


def _of(value: Aggregate, columns: pa.Schema) -> Accumulator:
    if isinstance(value, Count):
        return number_sums.RowCount()
    kinds = [columns.field(name).type for name in value.columns]
    if isinstance(value, OwnAggregate):
        return Own(value, kinds)
    return _OF[type(value)](value, value.column, kinds[0])


_OF: dict[type, Callable[[Any, str, pa.DataType], Accumulator]] = {
    Sum: lambda _, name, kind: number_sums.of_numbers(name, kind),
    Average: lambda _, name, kind: number_sums.NumberAverage(number_sums.of_numbers(name, kind)),
    Min: lambda _, name, kind: extremes.Extreme(name, kind, "min"),
    Max: lambda _, name, kind: extremes.Extreme(name, kind, "max"),
    First: lambda _, name, kind: extremes.EndOfTime(name, kind, "min"),
    Last: lambda _, name, kind: extremes.EndOfTime(name, kind, "max"),
    CountDistinct: lambda value, name, kind: bounded.Distinct(name, kind, value.most),
    Collect: lambda value, name, kind: bounded.Collected(name, kind, value.most),
}
