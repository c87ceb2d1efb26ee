"""Digests of rows: equal exactly when the multisets of rows are."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from effectively_once import digest

ROWS = st.lists(st.binary(max_size=3), max_size=8)


def test_the_digest_is_the_one_the_run_directory_describes() -> None:
    one, two = (int.from_bytes(blake2b(row, digest_size=16).digest(), "little") for row in (b"a", b"b"))
    assert digest.of_rows([b"a", b"b"]) == f"{(one + two) % 2**128:032x}"
    assert digest.EMPTY == "0" * 32


@given(ROWS, ROWS)
def test_digests_are_equal_exactly_when_the_multisets_are(left: list[bytes], right: list[bytes]) -> None:
    assert (digest.of_rows(left) == digest.of_rows(right)) == (Counter(left) == Counter(right))


@given(ROWS)
def test_order_does_not_matter_and_a_second_copy_does(rows: list[bytes]) -> None:
    assert digest.of_rows(reversed(rows)) == digest.of_rows(rows)
    assert digest.of_rows([*rows, b"x", b"x"]) != digest.of_rows(rows)


@given(ROWS, ROWS)
def test_digests_of_shards_add_up_to_that_of_all_rows(left: list[bytes], right: list[bytes]) -> None:
    assert digest.added([digest.of_rows(left), digest.of_rows(right)]) == digest.of_rows([*left, *right])
