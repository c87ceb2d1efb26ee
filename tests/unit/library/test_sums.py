"""Sums by group are those of Python's whole numbers, whatever the numbers are."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.state import sums
from effectively_once.state.cells import How

MOST, LEAST = 2**63 - 1, -(2**63)
HOW: dict[str, How] = {"n": "sum", "v": "sum", "least": "min", "most": "max"}
VALUES = st.sampled_from([MOST, LEAST, 2**62, -(2**62), 2**32, -(2**32), 2**32 - 1, 0]) | st.integers(LEAST, MOST)


def table(*rows: tuple[str, int]) -> pa.Table:
    keys, values = zip(*rows, strict=True) if rows else ((), ())
    numbers = pa.array(values, pa.int64())
    return pa.table(
        {
            "k": pa.array(keys, pa.string()),
            "n": pa.array([1] * len(rows), pa.int64()),
            "v": numbers,
            "least": numbers,
            "most": numbers,
        }
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), VALUES), max_size=20), st.integers(0, 20))
def test_groups_come_to_the_exact_sums_of_their_rows_in_one_step_or_two(rows: list[tuple[str, int]], cut: int) -> None:
    by_key: defaultdict[str, list[int]] = defaultdict(list)
    for key, value in rows:
        by_key[key].append(value)
    exact: dict[str, dict[str, Any]] = {
        k: {"k": k, "n": len(v), "v": sum(v), "least": min(v), "most": max(v)} for k, v in by_key.items()
    }
    parts = [sums.group_rows(table(*some), ["k"], HOW) for some in (rows[:cut], rows[cut:])]
    for found in (sums.group_rows(table(*rows), ["k"], HOW), sums.group_rows(pa.concat_tables(parts), ["k"], HOW)):
        fit, wide = sums.separate(found.sort_by("k"), ["k"], HOW)
        assert fit.schema == table().schema
        assert {row["k"]: row for row in fit.to_pylist()} == {k: r for k, r in exact.items() if sums.holds(r["v"])}
        assert {row["k"]: row for row in wide} == {k: r for k, r in exact.items() if not sums.holds(r["v"])}


@pytest.mark.parametrize(
    "values", [[2**63 - 1024, *[500] * 7], [2**63 - 1024, 500, 600], [2**62, 2**62 - 1024, 500, 500, 500], [LEAST, -1]]
)
def test_a_sum_just_beyond_64_bits_does_not_wrap(values: list[int]) -> None:
    """Added up as floating-point numbers these are 2^63, or less."""
    found = sums.group_rows(table(*(("a", value) for value in values)), ["k"], {"v": "sum"})
    fit, wide = sums.separate(found, ["k"], {"v": "sum"})
    assert (fit.num_rows, wide) == (0, [{"k": "a", "v": sum(values)}])


@pytest.mark.parametrize("values", [[MOST, 5, -10], [MOST, MOST, -MOST], [LEAST, -1, 1], [MOST], [LEAST], [LEAST, 0]])
def test_a_sum_that_64_bits_hold_is_one_row_although_a_part_of_it_is_larger(values: list[int]) -> None:
    found = sums.group_rows(table(*(("a", value) for value in values)), ["k"], {"v": "sum"})
    assert found.to_pylist() == [{"k": "a", "v": sum(values)}]


def test_the_largest_of_some_columns_is_a_size() -> None:
    assert sums.largest(table(("a", 3), ("b", -7)), ["n", "v"]) == 7
    assert sums.largest(table(("a", LEAST)), ["v"]) == 2**63
    assert sums.largest(table(), ["v"]) == 0
