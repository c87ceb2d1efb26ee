"""Digests of rows: equal exactly when the multisets of rows are."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from effectively_once import digest
from tests.harness.checkers import digest as checkers

ROWS = st.lists(st.binary(max_size=3), max_size=8)


@given(ROWS)
def test_the_digest_is_the_one_that_checkers_compute_for_themselves(rows: list[bytes]) -> None:
    assert digest.of_rows(rows) == checkers.digest(rows)
    assert digest.EMPTY == digest.of_rows([]) == "0" * 32


def test_digests_do_not_change_from_version_to_version() -> None:
    """They are kept in chains, marks and manifests."""
    assert digest.of_rows([b"a", b"b"]) == "6d29ba2be95030e7c1e5210218901d02"
    table = pa.table({
        "a": ["x", None], "b": pa.array([1, -1], pa.int64()), "c": [0.5, None], "d": [True, False],
        "e": [date(2026, 1, 31), None],
        "f": pa.array([datetime(2026, 1, 31, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    })  # fmt: skip
    assert digest.of_rows_in(table) == "1f4370064e6b8c0988ecb25d6be3a106"


COLUMNS = st.lists(
    st.tuples(st.none() | st.text(max_size=3), st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.booleans(),
              st.none() | st.binary(max_size=9)), max_size=8,
)  # fmt: skip
KINDS = pa.schema([("t", pa.string()), ("n", pa.int64()), ("y", pa.bool_()), ("b", pa.binary())])


def _table(rows: list[tuple[object, ...]]) -> pa.Table:
    return pa.table([pa.array([row[n] for row in rows], KINDS.types[n]) for n in range(4)], schema=KINDS)


@given(st.lists(st.tuples(st.text(max_size=20), st.integers(-(2**63), 2**63 - 1))))
def test_the_digest_of_a_table_is_the_one_that_checkers_compute_for_themselves(rows: list[tuple[str, int]]) -> None:
    names, numbers = [row[0] for row in rows], [row[1] for row in rows]
    table = pa.table({"id": pa.array(names, pa.string()), "t": pa.array(numbers, pa.int64())})
    assert digest.of_rows_in(table) == checkers.of_tables((name.encode(), number) for name, number in rows)


@given(COLUMNS, COLUMNS)
def test_digests_of_tables_are_equal_exactly_when_the_multisets_of_rows_are(
    left: list[tuple[object, ...]], right: list[tuple[object, ...]]
) -> None:
    same = Counter(left) == Counter(right)
    assert (digest.of_rows_in(_table(left)) == digest.of_rows_in(_table(right))) == same


@given(COLUMNS)
def test_a_table_in_parts_and_in_another_order_has_the_same_digest(rows: list[tuple[object, ...]]) -> None:
    whole = digest.of_rows_in(_table(rows))
    assert digest.of_rows_in(pa.concat_tables([_table(rows[:3]), _table(rows[3:])])) == whole
    assert digest.of_rows_in(_table(rows[::-1])) == whole
    assert digest.of_rows_in(_table([*rows, *rows]).slice(len(rows))) == whole


def test_the_same_values_in_other_columns_are_other_rows() -> None:
    left, right = pa.table({"a": ["x"], "b": ["y"]}), pa.table({"a": ["y"], "b": ["x"]})
    assert digest.of_rows_in(left) != digest.of_rows_in(right)


@given(ROWS, ROWS)
def test_digests_are_equal_exactly_when_the_multisets_are(left: list[bytes], right: list[bytes]) -> None:
    assert (digest.of_rows(left) == digest.of_rows(right)) == (Counter(left) == Counter(right))


@given(ROWS)
def test_order_does_not_matter_and_a_second_copy_does(rows: list[bytes]) -> None:
    assert digest.of_rows(rows[::-1]) == digest.of_rows(rows)
    assert digest.of_rows([*rows, b"x", b"x"]) != digest.of_rows(rows)


@given(ROWS, ROWS)
def test_digests_of_shards_add_up_to_that_of_all_rows(left: list[bytes], right: list[bytes]) -> None:
    assert digest.added([digest.of_rows(left), digest.of_rows(right)]) == digest.of_rows([*left, *right])
