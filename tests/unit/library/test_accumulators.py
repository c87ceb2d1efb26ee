"""Every aggregate of every type comes to what plain Python says, to the bit, however rows are ordered and divided."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once import (
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
from effectively_once.state import sums
from effectively_once.state import windows as state
from effectively_once.state.accumulators import accumulators, is_number
from effectively_once.state.aggregates import Aggregate
from effectively_once.state.lateness import Windows
from effectively_once.state.windows import WindowState
from tests.depth import examples
from tests.unit.library.column_values import EXACT, KINDS, LARGEST

LENGTH_MS = 100
WINDOWS = Windows(LENGTH_MS, 10**9)


@dataclass(frozen=True)
class Row:
    """What is drawn of a row."""

    key: str
    time_ms: int
    topic: str
    partition: int
    value: Any
    offset: int = 0

    @property
    def place(self) -> tuple[Any, ...]:
        return self.time_ms, self.topic.encode(), self.partition, self.offset


def rows_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Row]]:
    """Draw rows of a few keys, windows and times; no two have one coordinate."""
    row = st.builds(
        Row,
        st.sampled_from(["ann", "bob"]),
        st.integers(-150, 150),
        st.sampled_from(["t", "tt"]),
        st.sampled_from([0, 1, 258]),
        values,
    )
    numbered: Callable[[list[Row]], list[Row]] = lambda rows: [  # noqa: E731
        Row(row.key, row.time_ms, row.topic, row.partition, row.value, n * 7) for n, row in enumerate(rows)
    ]
    return st.lists(row, max_size=30).map(numbered)


def table_of(rows: Sequence[Row], kind: pa.DataType) -> pa.Table:
    return pa.table(
        {
            "user": pa.array([row.key for row in rows], pa.string()),
            "event_time_ms": pa.array([row.time_ms for row in rows], pa.int64()),
            "topic": pa.array([row.topic for row in rows], pa.string()),
            "partition": pa.array([row.partition for row in rows], pa.int32()),
            "offset": pa.array([row.offset for row in rows], pa.int64()),
            "value": pa.array([row.value for row in rows], kind),
        }
    )


def longest(kept: list[int], value: Any) -> list[int]:
    """What an author may add: the lengths of the longest texts."""
    return sorted([*kept, len(str(value))])[-2:]


LONGEST = OwnAggregate(("value",), list, longest, lambda a, b: sorted([*a, *b])[-2:], sum, pa.int64())


def values_of(kind: pa.DataType) -> dict[str, Aggregate]:
    found: dict[str, Aggregate] = {
        "rows": Count(),
        "least": Min("value"),
        "most": Max("value"),
        "first": First("value"),
        "last": Last("value"),
        "distinct": CountDistinct("value", 3),
        "some": Collect("value", 4),
        "longest": LONGEST,
    }
    return found | ({"sum": Sum("value"), "average": Average("value")} if is_number(kind) else {})


def in_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.isoformat() if isinstance(value, date) else value


def exact(value: Any) -> Fraction:
    return Fraction(value)


def double(value: Fraction) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def total(values: list[Any], kind: pa.DataType) -> Any:
    whole = sum(map(exact, values), Fraction())
    if pa.types.is_floating(kind):
        return double(whole)
    if pa.types.is_decimal(kind):
        digits = int(whole * 10**kind.scale)
        fits = abs(digits) < 10 ** min(38, kind.precision + 10)
        return EXACT.scaleb(Decimal(digits), -kind.scale) if fits else None
    return int(whole) if sums.holds(int(whole)) else None


def average(values: list[Any], kind: pa.DataType) -> Any:
    mean = sum(map(exact, values), Fraction()) / len(values)
    if not pa.types.is_decimal(kind):
        return double(mean)
    scale = kind.scale + min(4, 38 - kind.precision)
    return EXACT.quantize(
        EXACT.divide(Decimal(mean.numerator), Decimal(mean.denominator)), EXACT.scaleb(Decimal(1), -scale)
    )


def order(value: Any) -> Any:
    if isinstance(value, float):
        return value, math.copysign(1, value)
    return value.encode() if isinstance(value, str) else value


def expected(rows: list[Row], kind: pa.DataType) -> dict[str, Any]:
    """Results of the rows of a group."""
    in_order = [row.value for row in sorted(rows, key=lambda row: row.place)]
    # Equal doubles of two signs are one value.
    distinct = len(set(in_order))
    found = {
        "rows": len(rows),
        "least": min(in_order, key=order),
        "most": max(in_order, key=order),
        "first": in_order[0],
        "last": in_order[-1],
        "distinct": distinct if distinct <= 3 else None,
        "some": orjson.dumps([in_json(value) for value in in_order[:4]]).decode(),
        "longest": sum(sorted(len(str(value)) for value in in_order)[-2:]),
    }
    return found | ({"sum": total(in_order, kind), "average": average(in_order, kind)} if is_number(kind) else {})


def folded(parts: Sequence[Sequence[Row]], kind: pa.DataType) -> tuple[pa.Table, int]:
    """What is kept of rows that came in so many epochs; and what deltas say of their size."""
    values = accumulators(values_of(kind), pa.schema([("value", kind)]))
    # That of an author is looked for always.
    sized = {name: value for name, value in values.items() if name != "longest"}
    kept, size = WindowState(WINDOWS, values), 0
    for part in parts:
        delta = state.partial(table_of(part, kind), ("user",), values, WINDOWS)
        size += state.largest(delta, sized) or 0
        kept.fold(delta)
    return kept.final(None, 10**12), size


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one.hex() == other.hex()
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=examples(40))
@given(st.data())
@pytest.mark.thinned(3)
def test_results_are_those_of_plain_python_and_state_has_equal_bits_however_rows_are_divided(
    kind: pa.DataType, data: st.DataObject
) -> None:
    rows = data.draw(rows_of(KINDS[kind]))
    cuts = data.draw(st.lists(st.integers(0, 30), max_size=20))
    kept, size = folded([rows], kind)
    shuffled = data.draw(st.permutations(rows))
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    again, parts_size = folded([shuffled[start:end] for start, end in pairwise(bounds)], kind)
    assert kept.equals(again)

    values = accumulators(values_of(kind), pa.schema([("value", kind)]))
    found, impossible = state.final_of(kept, values)
    told = {(row["key"], row["window_start_ms"]): row for row in found.to_pylist()}
    told |= {(one.shown["key"], one.shown["window_start_ms"]): one.shown for one in impossible}
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.key, row.time_ms - row.time_ms % LENGTH_MS), []).append(row)
    assert told.keys() == groups.keys()
    for group, some in groups.items():
        due = expected(some, kind)
        wrong = {name: (told[group][name], due[name]) for name in due if not same(told[group][name], due[name])}
        assert not wrong, group
    beyond = {group for group, some in groups.items() if None in expected(some, kind).values()}
    assert {(one.exact["key"], one.exact["window_start_ms"]) for one in impossible} == beyond
    if beyond:
        assert min(size, parts_size) >= sums.LANE, "else nobody looks for it"


def test_a_sum_of_doubles_beyond_them_is_told_exactly() -> None:
    rows = [Row("ann", 0, "t", 0, LARGEST, n) for n in range(3)]
    values = accumulators({"sum": Sum("value"), "average": Average("value")}, pa.schema([("value", pa.float64())]))
    kept = state.partial(table_of(rows, pa.float64()), ("user",), values, WINDOWS)
    found, (one,) = state.final_of(kept, values)
    assert found.num_rows == 0
    assert (one.reason, one.exact["sum"]) == ("sum_too_large", Decimal(3 * int(LARGEST)))
    assert one.exact["average"] == LARGEST


def test_a_sum_of_several_rows_is_looked_for_whatever_each_of_them_is() -> None:
    """A lane of a long decimal whose sum 64 bits do not hold is little beside the largest decimal, a row."""
    values = accumulators({"sum": Sum("value")}, pa.schema([("value", pa.decimal128(38, 0))]))
    lanes = {"sum.lane0": [sums.LANE, 5], "sum.lane1": [0, 0], "sum.lane2": [0, 0]}
    delta = pa.table({"key": ["a", "a"], "window_start_ms": [0, 0], **lanes}).cast(state.schema(values))
    assert state.largest(delta, values) == sums.LANE
    assert (state.largest(delta.slice(1), values) or 0) < sums.LANE


def test_an_average_of_whole_numbers_fits_though_their_sum_does_not() -> None:
    rows = [Row("ann", 0, "t", 0, 2**63 - 1, n) for n in range(3)]
    values = accumulators({"average": Average("value")}, pa.schema([("value", pa.int64())]))
    kept = state.partial(table_of(rows, pa.int64()), ("user",), values, WINDOWS)
    assert kept.num_rows > 1
    found, impossible = state.final_of(kept, values)
    assert (found["average"].to_pylist(), impossible) == ([float(2**63 - 1)], [])


def test_half_a_last_digit_of_an_average_of_decimals_is_rounded_away_from_zero() -> None:
    kind = pa.decimal128(38, 2)
    for sign in (1, -1):
        rows = [Row("ann", 0, "t", 0, Decimal(sign * cents) / 100, n) for n, cents in enumerate((1, 2))]
        values = accumulators({"average": Average("value")}, pa.schema([("value", kind)]))
        found, _ = state.final_of(state.partial(table_of(rows, kind), ("user",), values, WINDOWS), values)
        assert found["average"].to_pylist() == [Decimal(sign * 2) / 100]


def test_a_sum_beyond_64_bits_leaves_cells_beside_it_as_they_are() -> None:
    """It takes several rows, and what they say beside it counts once."""
    rows = table_of([Row("ann", 0, "t", 0, 0.5, n) for n in range(3)], pa.float64())
    rows = rows.append_column("whole", pa.array([2**63 - 1] * 3, pa.int64()))
    both: dict[str, Aggregate] = {"average": Average("whole"), "sum": Sum("value"), "some": Collect("value", 2)}
    values = accumulators(both, rows.schema)
    kept = state.partial(rows, ("user",), values, WINDOWS)
    assert kept.num_rows == 3
    found, impossible = state.final_of(state.group_rows(kept, state.merges(values)), values)
    assert impossible == []
    assert [(row["average"], row["sum"], row["some"]) for row in found.to_pylist()] == [
        (float(2**63 - 1), 1.5, "[0.5,0.5]")
    ]
