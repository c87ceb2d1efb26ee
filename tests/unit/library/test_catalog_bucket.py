"""One bucket of the catalog: which ids it returns, and when it merges what has come to rest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from effectively_once.state.catalog import bucket as module
from effectively_once.state.catalog.bucket import QUIET_DELTAS, QUIET_FACTOR, Bucket, Folded

SHIFT = 24
"""A prefix is what is left of a hash beyond these bits."""


def folded(*prefixes: int) -> Folded:
    """Ids of such hashes, each named by its own; two of one prefix are two ids."""
    ids = pa.array([f"{prefix}/{place}".encode() for place, prefix in enumerate(prefixes)], pa.binary())
    return Folded(np.array(prefixes, np.uint64) << np.uint64(SHIFT), ids, np.zeros(len(prefixes), np.uint8))


def bucket_of(*sizes: int) -> Bucket:
    """Return a bucket with a run of each size; they are so different that none was merged."""
    bucket, first = Bucket(), 0
    for size in sizes:
        bucket.add(folded(*range(first, first + size)))
        bucket.settle()
        first += size
    assert len([*bucket._runs]) == len(sizes)
    return bucket


def test_each_id_of_a_prefix_is_found_once_however_often_one_asks() -> None:
    bucket = Bucket()
    bucket.add(folded(1, 2, 2, 3))
    bucket.settle()
    (found,) = bucket.find(np.array([1, 2, 2, 2], np.uint64))
    assert sorted(found.to_pylist()) == [b"1/0", b"2/1", b"2/2"]
    assert bucket.find(np.array([4], np.uint64)) == []
    assert bucket.find(np.array([], np.uint64)) == []


def rest(bucket: Bucket, deltas: int) -> list[int]:
    """Let so many deltas bring nothing; return the sizes of the runs that are left."""
    for _ in range(deltas):
        bucket.rest()
    return [len(run) for run in bucket._runs]


def test_runs_are_merged_after_so_many_deltas_that_brought_nothing_and_not_before() -> None:
    """It counts from the beginning again after a merge; the factor of a bucket at rest is the larger one."""
    bucket = bucket_of(20, 2)
    assert rest(bucket, QUIET_DELTAS - 1) == [20, 2]
    assert rest(bucket, 1) == [22]
    bucket.add(folded(*range(100, 105)))
    bucket.settle()
    assert rest(bucket, QUIET_DELTAS - 1) == [22, 5]
    assert rest(bucket, 1) == [27]


def test_deltas_that_bring_next_to_nothing_are_counted_as_well() -> None:
    bucket = bucket_of(38, 2)
    assert rest(bucket, QUIET_DELTAS) == [40]
    for prefix in (100, 101):
        bucket.add(folded(prefix))
    bucket.settle()
    assert rest(bucket, QUIET_DELTAS - 3) == [40, 2]
    assert rest(bucket, 1) == [42]


def test_a_delta_is_next_to_nothing_below_a_share_of_the_bucket() -> None:
    """One of that share begins the count anew."""
    for brought, runs in ((1, 1), (2, 2)):
        bucket = bucket_of(2 * QUIET_FACTOR - 10, 10)
        rest(bucket, QUIET_DELTAS - 1)
        bucket.add(folded(*range(1000, 1000 + brought)))
        assert len([*bucket._runs]) == runs


@pytest.mark.parametrize(
    ("name", "limit"), [("RUN_IDS", 3), ("RUN_BYTES", sum(folded(*some).ids.nbytes for some in ([4, 5], [6])))]
)
def test_as_much_as_a_run_holds_is_sorted_at_once_also_after_others_were(
    name: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, limit)
    bucket = Bucket()
    for held in (0, 3):
        bucket.add(folded(4, 5))
        bucket.add(folded(6))
        assert len(bucket._runs) == held
        bucket.add(folded(7, 8, 9))
        assert len(bucket._runs) == held + 3
        bucket.settle()
        bucket = bucket_of(3)


def test_a_filter_is_made_for_half_as_many_ids_again_and_stays_until_there_are_more() -> None:
    bucket, made_for = Bucket(), []
    for first, count in ((0, 100), (100, 50), (150, 1)):
        bucket.add(folded(*range(first, first + count)))
        bucket.settle()
        made_for.append(bucket._filter.capacity)
    assert made_for == [150, 150, 226]


@pytest.mark.parametrize("settled", [False, True])
def test_a_bucket_is_mostly_closed_once_fewer_than_half_of_its_ids_are_open(settled: bool) -> None:
    bucket = Bucket()
    part = folded(1, 2, 3, 4)
    bucket.add(Folded(part.hashes, part.ids, np.array([0, 0, 1, 2], np.uint8)))
    if settled:
        bucket.settle()
    told = []
    for windows in range(3):
        bucket.close(windows)
        told.append(bucket.mostly_closed)
    assert told == [False, False, True]
