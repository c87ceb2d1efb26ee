"""What the catalog takes is bounded by what is live."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

from effectively_once.state.catalog import Catalog, bucket, catalog, keys, runs
from effectively_once.state.catalog.buckets import NONE_CLOSED, Buckets
from effectively_once.state.catalog.catalog import BUCKETS_MAX
from effectively_once.state.catalog.index import Index
from effectively_once.state.lateness import Windows

ID_BYTES = 24
BESIDE_ID = 24
"""Bytes for each live id beside its own: key 8, offset 4, filter at most 6, directory at most 1, window 1, and room."""


def _delta(first: int, count: int, time_ms: int) -> pa.Table:
    ids = [f"{number:0{ID_BYTES}d}" for number in range(first, first + count)]
    return pa.table({"id": ids, "event_time_ms": np.full(count, time_ms)})


@pytest.mark.parametrize("epochs", [1, 5, 20])
def test_an_id_takes_24_bytes_beside_its_own(epochs: int) -> None:
    known = Catalog(Windows(60_000, 120_000))
    for epoch in range(epochs):
        known.fold(_delta(epoch * 5_000, 5_000, epoch))
        known.settle()
    counted = known.summary()
    assert json.loads(json.dumps(counted)) == counted, "the log has it"
    assert counted["live"] == epochs * 5_000
    assert counted["bytes"] / counted["live"] <= ID_BYTES + BESIDE_ID


@pytest.mark.parametrize(("name", "limit"), [("RUN_IDS", 25), ("RUN_BYTES", 25 * ID_BYTES)])
def test_a_rebuild_sorts_no_more_at_once_than_a_run_may_hold(
    name: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, name, limit)
    monkeypatch.setattr(runs, name, limit)
    # More at once could not be told apart by their places.
    monkeypatch.setattr(keys, "PLACES", 25)
    known = Catalog(Windows(60_000, 120_000))
    for epoch in range(40):
        known.fold(_delta(epoch * 10, 10, epoch))
    assert not known.decide(_delta(380, 20, 0)["id"]).any()
    assert len(known) == 400


@pytest.mark.parametrize("stragglers", [0, 1])
def test_a_full_bucket_is_merged_into_one_run_and_stragglers_do_not_merge_it_again(stragglers: int) -> None:
    known = Catalog(Windows(60_000, 1_200_000))
    for epoch in range(14):
        known.fold(_delta(epoch * 1_000, 1_000, 0))
        known.settle()
    (full,) = known._buckets.values()
    assert len(list(full._runs)) > 1
    merged: set[int] = set()
    for epoch in range(14, 54):
        known.fold(_delta(epoch * 1_000, 1_000, 900_000))
        known.fold(_delta(1_000_000 + epoch, stragglers, 0))
        known.settle()
        merged.add(max(map(len, full._runs)))
    assert len(list(full._runs)) <= 1 + 3 * stragglers
    assert len(merged) <= 2 + stragglers
    assert len(full) == 14_000 + 40 * stragglers


def test_memory_stays_the_same_while_ids_come_and_go() -> None:
    known = Catalog(Windows(60_000, 540_000))
    held = []
    for minute in range(100):
        known.expire(minute * 60_000)
        known.decide(pa.array([], pa.string()))
        known.fold(_delta(minute * 500, 500, minute * 60_000))
        held.append(known.summary())
    # Open are a window and its lateness of nine; up to nine more wait for the last one of their bucket.
    assert [h["live"] for h in held[9:]] == 91 * [10 * 500]
    assert max(h["bytes"] for h in held) <= 20 * 500 * (ID_BYTES + BESIDE_ID)


@contextmanager
def _peak_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def test_looking_up_hashes_that_are_all_equal_takes_memory_for_each_row_not_for_each_pair() -> None:
    known = Catalog(Windows(60_000, 120_000), hash_of=lambda ids: np.zeros(len(ids), np.uint64))
    known.fold(_delta(0, 3_000, 0))
    with _peak_below(5_000_000):
        assert not known.decide(_delta(0, 3_000, 0)["id"]).any()


def test_looking_up_beside_a_crowd_of_equal_hashes_does_not_go_through_the_crowd() -> None:
    crowd = Index.of(np.zeros(30_000, np.uint64))
    with _peak_below(5_000_000):
        assert len(crowd.rows(np.arange(1, 1_000, dtype=np.uint64))) == 0


def test_however_long_lateness_is_few_buckets_are_asked() -> None:
    known = Catalog(Windows(60_000, 7 * 24 * 3_600_000))
    minutes = np.arange(7 * 24 * 60)
    known.fold(pa.table({"id": minutes.astype(str), "event_time_ms": minutes * 60_000}))
    assert len(known._buckets) <= 18


def test_however_far_event_times_are_spread_few_buckets_are_asked_and_closed_ids_go() -> None:
    """A bucket takes some 0.5 ms to make and to ask: 20,000 of them took longer than an epoch may."""
    length_ms, count = 60_000, 20_000
    windows = Windows(length_ms, 120_000)
    known = Catalog(windows)
    times = np.arange(count) * 10 * length_ms
    ids = [f"{number:0{ID_BYTES}d}" for number in range(count)]
    known.fold(pa.table({"id": ids, "event_time_ms": times}))
    whole = known.summary()
    assert whole["live"] == count
    assert len(known._every()) == BUCKETS_MAX + 1
    assert not known.decide(pa.array(ids)).any()
    # Some were closed before half of them are.
    for part in (0.3, 0.9):
        known.expire(int(times[-1] * part))
    left = known.summary()
    assert left["live"] == sum(not windows.closed(windows.start(int(at)), int(times[-1] * 0.9)) for at in times)
    assert left["bytes"] < whole["bytes"] / 4
    assert np.count_nonzero(~known.decide(pa.array(ids))) == left["live"]
    known.expire(int(times[-1]) + 10 * length_ms)
    assert (len(known), known._every()) == (0, [])


def test_the_fullest_buckets_have_memory_of_their_own_beside_those_that_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """The earliest of equally full ones: the same in every process."""
    monkeypatch.setattr(catalog, "BUCKETS_MAX", 4)
    known = Catalog(Windows(100, 50), bucket_ms=100)
    known.fold(_delta(0, 1, 99 * 100))
    windows = np.array([*range(100), *range(1, 100, 2)])
    known.fold(pa.table({"id": np.arange(len(windows)).astype(str), "event_time_ms": windows * 100}))
    assert sorted(known._buckets) == [1, 3, 5, 99]


@pytest.mark.parametrize("lateness_ms", [0, 50, 120])
def test_the_first_open_window_is_that_of_the_rule_of_lateness(lateness_ms: int) -> None:
    windows = Windows(100, lateness_ms)
    divided = Buckets.of(windows, 1)
    assert divided.first_open(None) == NONE_CLOSED
    for mark in range(-500, 500):
        first = divided.first_open(mark)
        assert windows.closed(100 * (first - 1), mark)
        assert not windows.closed(100 * first, mark)


@pytest.mark.parametrize(("length", "bytes_"), [(1, 1), (256, 1), (257, 2)])
def test_the_windows_of_a_bucket_are_told_apart_in_as_few_bytes_as_can(length: int, bytes_: int) -> None:
    divided = Buckets(Windows(100, 50), length)
    for number in (-1, 0, 7):
        times = np.arange(number * length, (number + 1) * length) * 100
        numbers, windows = divided.place(times)
        assert set(numbers.tolist()) == {number}
        assert (windows.tolist(), windows.itemsize) == ([*range(length)], bytes_)


@pytest.mark.parametrize(
    ("length_ms", "lateness_ms", "bucket_ms", "length"),
    [(1_000, 0, 10, 1), (100, 50, 1_000, 10), (100, 50, 1_099, 10), (100, 15_900, 900, 10), (100, 16_000, 1_100, 11)],
)
def test_a_bucket_is_as_long_as_is_asked_but_a_window_and_a_share_of_lateness_at_least(
    length_ms: int, lateness_ms: int, bucket_ms: int, length: int
) -> None:
    assert Buckets.of(Windows(length_ms, lateness_ms), bucket_ms).length == length
