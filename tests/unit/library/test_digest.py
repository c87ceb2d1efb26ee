"""Digests of rows: equal exactly when the multisets of rows are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from struct import pack

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from effectively_once.ledger import digest, former_digest, row_bytes
from tests.harness.checkers import digest as checkers

ROWS = st.lists(st.binary(max_size=3), max_size=8)
FORMER = "6d29ba2be95030e7c1e5210218901d02"
"""Of rows a and b, as versions before docs/adr/0042 wrote it."""
FORMS = pytest.mark.parametrize("like", [digest.EMPTY, FORMER], ids=["today's", "former"])


@FORMS
@given(rows=ROWS)
def test_the_digest_is_the_one_that_checkers_compute_for_themselves(like: str, rows: list[bytes]) -> None:
    assert digest.of_rows(rows, like) == checkers.digest(rows, like)
    assert digest.EMPTY == digest.of_rows([], like) == "0" * 32


def _every_type() -> pa.Table:
    return pa.table(
        {
            "a": ["x", None],
            "b": pa.array([1, -1], pa.int64()),
            "c": [0.5, None],
            "d": [True, False],
            "e": [date(2026, 1, 31), None],
            "f": pa.array([datetime(2026, 1, 31, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        }
    )


def test_digests_do_not_change_from_version_to_version() -> None:
    """They are kept in chains, marks and manifests."""
    assert digest.of_rows([b"a", b"b"]) == "xxh3:f491c25375bae8083e203dd2636ed25e"
    assert digest.of_rows_in(_every_type()) == "xxh3:5aba6870af3f5e3d3024cd3e99a3a841"


def test_what_older_versions_wrote_is_compared_in_its_own_form() -> None:
    assert digest.of_rows([b"a", b"b"], FORMER) == FORMER
    assert digest.of_rows_in(_every_type(), FORMER) == "1f4370064e6b8c0988ecb25d6be3a106"
    assert [digest.is_former(one) for one in (FORMER, digest.of_rows([b"a"]), digest.EMPTY)] == [True, False, False]


def test_the_hash_is_the_one_that_its_authors_describe() -> None:
    """Of no bytes, by their own check of the algorithm."""
    assert xxh3_128_hexdigest(b"") == "99aa06d3014798d86001c324468d497f"
    assert digest.of_rows([b""]) == "xxh3:99aa06d3014798d86001c324468d497f"


COLLIDING = [
    (pack(">qq", 131, 732), pack(">qq", 231, 632)),
    (pack(">qq", 131, 550), pack(">qq", 231, 706)),
    (pack("<qq", 1400, 1587), pack("<qq", 1625, 724)),
    (pack("<qq", 95, 1091), pack("<qq", 232, 1200)),
    (b"0000138000000839", b"0000168800000531"),
]
"""Of 4,000,000 rows of two numbers below 2,000 one pair would collide in 2 million such families."""


@pytest.mark.parametrize(("left", "right"), COLLIDING)
def test_rows_of_two_words_that_collided_in_the_former_hash_are_told_apart(left: bytes, right: bytes) -> None:
    assert left != right
    assert former_digest.of_rows([left]) == former_digest.of_rows([right])
    assert _halves(left)[0] != _halves(right)[0]
    assert _halves(left)[1] != _halves(right)[1]


def _halves(row: bytes) -> tuple[str, str]:
    _, _, told = digest.of_rows([row]).rpartition(":")
    return told[:16], told[16:]


@pytest.mark.parametrize("form", [">qq", "<qq", "<dd"])
def test_the_halves_of_a_hash_depend_on_every_word_and_not_on_each_other(form: str) -> None:
    """Bit by bit: each of them is set in half of the rows, and equal to one of the other half in half of them."""
    halves = [_halves(pack(form, low, high)) for low in range(60) for high in range(60)]
    bits = np.array([[int(bit) for half in both for bit in f"{int(half, 16):064b}"] for both in halves])
    assert len({first for first, _ in halves}) == len({second for _, second in halves}) == 3600
    # Six standard deviations of 3,600 throws.
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.05
    alike = (bits[:, :64, None] == bits[:, None, 64:]).mean(axis=0)
    assert np.abs(alike - 0.5).max() < 0.05


COLUMNS = st.lists(
    st.tuples(
        st.none() | st.text(max_size=3),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.booleans(),
        st.none() | st.binary(max_size=9),
    ),
    max_size=8,
)
KINDS = pa.schema([("t", pa.string()), ("n", pa.int64()), ("y", pa.bool_()), ("b", pa.binary())])


def _table(rows: list[tuple[object, ...]]) -> pa.Table:
    return pa.table([pa.array([row[n] for row in rows], KINDS.types[n]) for n in range(4)], schema=KINDS)


@FORMS
@given(rows=st.lists(st.tuples(st.text(max_size=20), st.integers(-(2**63), 2**63 - 1))))
def test_the_digest_of_a_table_is_the_one_that_checkers_compute_for_themselves(
    like: str, rows: list[tuple[str, int]]
) -> None:
    names, numbers = [row[0] for row in rows], [row[1] for row in rows]
    table = pa.table({"id": pa.array(names, pa.string()), "t": pa.array(numbers, pa.int64())})
    assert digest.of_rows_in(table, like) == checkers.of_tables(
        ((name.encode(), number) for name, number in rows), like
    )


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
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(row_bytes, "SLICE_BYTES", 1)
        assert digest.of_rows_in(_table(rows)) == whole


@pytest.mark.parametrize(
    ("rows", "at_once"),
    [
        (pa.table({"n": range(1000)}), range(2, 113)),
        (pa.table({"t": ["x" * 500] * 10}), range(1, 3)),
        (pa.table({"t": ["x" * 3000] * 3}), range(1, 2)),
    ],
    ids=["numbers", "text", "longer than a slice"],
)
def test_so_many_rows_are_in_memory_once_more_as_a_slice_takes(
    monkeypatch: pytest.MonkeyPatch, rows: pa.Table, at_once: range
) -> None:
    monkeypatch.setattr(row_bytes, "SLICE_BYTES", 1024)
    parts = [*row_bytes.of_table(rows)]
    assert sum(map(len, parts)) == len(rows)
    assert max(map(len, parts)) in at_once


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"a": ["x"], "b": ["y"]}, {"a": ["y"], "b": ["x"]}),
        ({"a": ["xy"], "b": ["z"]}, {"a": ["x"], "b": ["yz"]}),
        ({"a": [1], "b": [2]}, {"a": [2], "b": [1]}),
        ({"a": [None, "x"]}, {"a": ["", "x"]}),
        ({"a": [None, 1]}, {"a": [0, 1]}),
        ({"a": [0.0]}, {"a": [-0.0]}),
    ],
)
def test_the_same_values_in_other_columns_and_nulls_are_other_rows(
    left: dict[str, list[object]], right: dict[str, list[object]]
) -> None:
    assert digest.of_rows_in(pa.table(left)) != digest.of_rows_in(pa.table(right))


def test_how_wide_the_type_of_a_column_is_does_not_matter() -> None:
    """Deltas that travel in the record come back in the types of JSON."""
    narrow = pa.table({"n": pa.array([7, None, -7], pa.int32()), "t": pa.array(["a", None, "b"], pa.string())})
    wide = pa.table({"n": narrow["n"].cast(pa.int64()), "t": narrow["t"].cast(pa.large_string())})
    assert digest.of_rows_in(narrow) == digest.of_rows_in(wide)


@given(ROWS, ROWS)
def test_digests_are_equal_exactly_when_the_multisets_are(left: list[bytes], right: list[bytes]) -> None:
    assert (digest.of_rows(left) == digest.of_rows(right)) == (Counter(left) == Counter(right))


@FORMS
@given(left=ROWS, right=ROWS)
def test_digests_of_shards_add_up_to_that_of_all_rows(like: str, left: list[bytes], right: list[bytes]) -> None:
    both = [digest.of_rows(left, like), digest.of_rows(right, like)]
    assert digest.add(both) == checkers.add(both) == digest.of_rows([*left, *right], like)


@pytest.mark.parametrize("add", [digest.add, checkers.add])
def test_digests_of_two_forms_have_no_sum(add: Callable[[list[str]], str]) -> None:
    with pytest.raises(ValueError, match="two forms"):
        add([FORMER, digest.of_rows([b"a"])])
    assert add([FORMER, digest.EMPTY]) == FORMER
    assert add([]) == digest.EMPTY
