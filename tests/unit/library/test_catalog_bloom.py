"""The filter never denies what it was given, and rarely says maybe to anything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.ledger.hashes import U64
from effectively_once.state.catalog import bloom, keys
from effectively_once.state.catalog.bloom import Filter, Probe

PREFIXES = st.lists(st.integers(0, 2**keys.PREFIX_BITS - 1), max_size=50).map(
    lambda numbers: np.array(sorted(numbers), np.uint64)
)


def _random(count: int, seed: int) -> U64:
    drawn = np.random.default_rng(seed).integers(0, 1 << keys.PREFIX_BITS, count, dtype=np.uint64)
    drawn.sort()
    return drawn


@given(PREFIXES, PREFIXES, st.sampled_from([0, 1, 10, 10**5]))
def test_what_was_taken_in_is_never_denied(first: U64, then: U64, capacity: int) -> None:
    asked = Filter(capacity)
    asked.add(first)
    asked.add(then)  # beyond its capacity it says maybe more often
    for prefixes in (first, then):
        assert len(asked.maybe(Probe.of(prefixes))) == len(prefixes)


@given(PREFIXES)
def test_an_empty_filter_denies_everything(prefixes: U64) -> None:
    assert len(Filter(100).maybe(Probe.of(prefixes))) == 0


@pytest.mark.parametrize("ids", [1_000, 50_000, 500_000])
def test_a_full_filter_is_wrong_less_often_than_0_1_percent_over_18_buckets(ids: int) -> None:
    full, known = Filter(ids), _random(ids, seed=1)
    full.add(known)
    # More than are taken in at once; and with room for all, so that none is there by another's bits.
    assert len(full.maybe(Probe.of(known))) == ids
    # A prefix drawn twice is no mistake of the filter: 500,000 of 2^40 make 0.5 of a million.
    wrong = len(full.maybe(Probe.of(_random(1_000_000, seed=2)))) / 1_000_000
    assert 18 * wrong < 0.001
    assert 4 * ids <= full.bytes_ <= 4 * ids + 64


def test_a_prefix_sets_five_bits_in_each_of_two_words_out_of_thousands_that_are_the_same_in_every_process() -> None:
    drawn = Probe.of(_random(200_000, seed=4))
    for words in (drawn.first, drawn.second):
        distinct = np.unique(words)
        assert len(distinct) > 4_000
        assert {int(word).bit_count() for word in distinct} == {5}
    assert np.array_equal(bloom._masks(), bloom._masks())
