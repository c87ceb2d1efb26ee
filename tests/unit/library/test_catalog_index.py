"""The index finds every row of a hash, and runs stay few however ids come."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.state import catalog
from effectively_once.state.catalog import keys, runs
from effectively_once.state.catalog.index import Index
from effectively_once.state.catalog.runs import Run, Runs

ENDS = [0, 1, 2**24 - 1, 2**24, 2**63, 2**64 - 2**24, 2**64 - 1]
HASHES = st.lists(st.sampled_from(ENDS) | st.integers(0, 2**64 - 1), max_size=40)


def _prefix(number: int) -> int:
    return number >> 24


def _prefixes(numbers: list[int]) -> np.ndarray:
    return np.array(sorted(set(map(_prefix, numbers))), np.uint64)


@given(st.lists(HASHES, min_size=1, max_size=4), HASHES, st.sampled_from([1, 64]))
def test_all_rows_of_a_hash_are_found_and_no_others(parts: list[list[int]], asked: list[int], cell_max: int) -> None:
    index = Index.merge([Index.of(np.array(part, np.uint64)) for part in parts])
    rows = [number for part in parts for number in part]
    wanted = set(map(_prefix, asked))
    expected = [row for row, number in enumerate(rows) if _prefix(number) in wanted]
    with patch.object(catalog.index, "_CELL_MAX", cell_max):
        assert sorted(index.rows(_prefixes(asked)).tolist()) == expected


@given(HASHES)
def test_prefixes_are_those_of_the_hashes_in_order(numbers: list[int]) -> None:
    assert Index.of(np.array(numbers, np.uint64)).prefixes.tolist() == sorted(map(_prefix, numbers))


def test_rows_of_one_hash_keep_their_order() -> None:
    ordered = keys.of_hashes(np.array([5 << 24, 7, 5 << 24, 7], np.uint64))
    assert keys.places(ordered).tolist() == [1, 3, 0, 2]


def test_a_large_index_finds_each_of_its_rows() -> None:
    hashes = np.random.default_rng(1).integers(0, 2**64, 200_000, dtype=np.uint64)
    asked = np.sort(hashes[::100] >> np.uint64(24))
    assert set(range(0, 200_000, 100)) <= set(Index.of(hashes).rows(asked).tolist())


@pytest.mark.parametrize("cell_max", [0, 64])
def test_the_last_row_that_keys_can_tell_apart_is_found(cell_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog.index, "_CELL_MAX", cell_max)
    last = keys.PLACES - 1
    index = Index(np.array([4 << 24, 5 << 24 | last, 6 << 24], np.uint64))
    assert index.rows(np.array([5], np.uint64)).tolist() == [last]


@pytest.mark.parametrize("count", [8, 15, 16, 65_535, 65_536])
def test_keys_lie_four_to_eight_in_a_cell_of_a_directory_that_takes_a_byte_for_each(count: int) -> None:
    """Where they are spread evenly, as hashes are on average."""
    index = Index.of(np.arange(count, dtype=np.uint64) * np.uint64(2**64 // count))
    assert 4 <= index._widest <= 8
    assert index.bytes_ <= (8 + 1) * count + 4


def _run(ids: int, size: int = 8) -> Run:
    array = pa.array([b"x" * size] * ids, pa.binary())
    return Run(Index.of(np.arange(ids, dtype=np.uint64)), array, np.zeros(ids, np.uint8))


def test_runs_stay_few_and_each_id_is_merged_a_few_times() -> None:
    held, sorted_ids = Runs(), 0
    for _ in range(512):
        before = {id(run) for run in held}
        held.add(_run(10))
        sorted_ids += sum(len(run) for run in held if id(run) not in before)
    assert len(held) == 5120
    assert len(list(held)) <= 6
    assert sorted_ids <= 8 * 5120


@pytest.mark.parametrize(
    ("name", "limit"), [("RUN_IDS", 20), ("RUN_IDS", 25), ("RUN_BYTES", 20 * 12), ("RUN_BYTES", 25 * 12)]
)
def test_no_run_grows_beyond_the_limits_of_a_merge(name: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, name, limit)
    held = Runs()
    for _ in range(20):
        held.add(_run(10))
    assert len(held) == 200
    assert max(map(len, held)) == 20


@pytest.mark.parametrize(("before", "merged"), [(5, True), (6, False), (7, False)])
def test_a_run_is_merged_with_one_that_is_not_so_many_times_as_large_and_else_left_as_it_is(
    before: int, merged: bool
) -> None:
    held, large, small = Runs(), _run(before), _run(2)
    held.add(large)
    assert next(iter(held)) is large
    held.add(small)
    left = [*held]
    assert [*map(len, left)] == ([before + 2] if merged else [before, 2])
    assert merged or (left[0] is large and left[1] is small)
