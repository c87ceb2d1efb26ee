"""Hashes of ids are a function of their bytes alone, the same in every process and run."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.ledger import hashes
from effectively_once.ledger.hashes import of_ids

IDS = st.lists(st.binary(max_size=60) | st.binary(min_size=9, max_size=9), max_size=30)
MASK = 2**64 - 1


def _in_plain_python(identity: bytes) -> int:
    """Follow the definition, number by number."""
    place, first, second = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
    words = [int.from_bytes(identity[i : i + 8], "little") for i in range(0, max(len(identity), 1), 8)]
    total = len(identity) * place
    for number, word in enumerate(words, start=1):
        x = (word + number * place) & MASK
        x = ((x ^ x >> 32) * first) & MASK
        total += ((x ^ x >> 29) * second) & MASK
    x = total & MASK
    x = ((x ^ x >> 30) * first) & MASK
    x = ((x ^ x >> 27) * second) & MASK
    return x ^ x >> 31


def _hashed(ids: list[bytes]) -> list[int]:
    hashed: list[int] = of_ids(pa.array(ids, pa.binary())).tolist()
    return hashed


@given(IDS)
def test_hashes_are_those_of_the_definition_whatever_ids_stand_beside(ids: list[bytes]) -> None:
    assert _hashed(ids) == [_in_plain_python(identity) for identity in ids]


def test_hashes_do_not_change_from_version_to_version() -> None:
    """Whoever hands hashes in relies on it: they come from another process than the one that folds."""
    assert [f"{number:016x}" for number in _hashed([b"", b"a", b"0123456789abcdef", "é😀".encode()])] == [
        "478e0a617d3fd05f",
        "1cf61a4bc2010d8a",
        "9cf611e8d4fc91d2",
        "3bed789d6de36e14",
    ]


@given(IDS, st.integers(0, 30), st.integers(0, 30), st.integers(1, 3))
def test_a_slice_is_hashed_as_the_whole_and_part_by_part(
    ids: list[bytes], first: int, number: int, at_once: int
) -> None:
    part = pa.array(ids, pa.binary()).slice(first, number)
    assert of_ids(part).tolist() == _hashed(ids[first : first + number])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hashes, "_SLICE_BYTES", 16 * at_once)
        assert of_ids(part).tolist() == _hashed(ids[first : first + number])


@given(st.binary(min_size=1, max_size=80), st.data())
def test_changed_bytes_an_added_byte_and_swapped_words_change_the_hash(identity: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(identity) - 1))
    other = identity[:at] + bytes([identity[at] ^ data.draw(st.integers(1, 255))]) + identity[at + 1 :]
    turned = identity[8:] + identity[:8]
    different = {identity, other, identity + b"\x00", turned}
    assert len(set(_hashed(sorted(different)))) == len(different)


@pytest.mark.parametrize("form", ["{}", "p-{:012d}", "user-7/order-{}/line-3", "{0:08x}{0:024d}"])
def test_ids_that_are_counted_up_collide_no_more_often_than_chance(form: str) -> None:
    prefixes = of_ids(pa.array([form.format(number).encode() for number in range(100_000)])) >> np.uint64(24)
    # 40 bits: 0.005 pairs are to be expected among 100,000.
    assert len(np.unique(prefixes)) == 100_000
    assert np.bincount((prefixes >> np.uint64(32)).astype(int), minlength=256).min() > 300


def test_one_huge_id_costs_what_its_bytes_cost() -> None:
    ids = pa.array([b"a", b"x" * 4_000_000, b"b"])
    started = time.process_time()
    assert len(set(of_ids(ids).tolist())) == 3
    assert time.process_time() - started < 0.5
