"""The catalog decides, expires and counts as plain sets do, also where filter, hash or runs are of no help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import accumulate
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once.ledger.hashes import U64, of_ids
from effectively_once.state.catalog import Catalog, bloom, bucket, catalog, runs
from effectively_once.state.lateness import Windows
from tests.depth import examples

WINDOWS = Windows(100, 50)
Id = str | bytes


@dataclass
class PlainSets:
    """What the catalog has to be equal to, in a few lines of Python."""

    by_window: dict[int, set[Id]] = field(default_factory=dict)
    watermark_ms: int | None = None

    def fold(self, rows: list[tuple[Id, int]]) -> None:
        for identity, time_ms in rows:
            self.by_window.setdefault(WINDOWS.start(time_ms), set()).add(identity)
        self.expire(self.watermark_ms)

    def expire(self, watermark_ms: int | None) -> int:
        self.watermark_ms = watermark_ms
        before = len(self)
        for start in [s for s in self.by_window if WINDOWS.closed(s, watermark_ms)]:
            del self.by_window[start]
        return before - len(self)

    def decide(self, ids: list[Id]) -> list[bool]:
        seen = set().union(*self.by_window.values())
        return [not (identity in seen or seen.add(identity)) for identity in ids]  # type: ignore[func-returns-value]

    def __len__(self) -> int:
        return sum(map(len, self.by_window.values()))


@dataclass(frozen=True)
class Epoch:
    """Rows of an epoch, its watermark, and whether it was recorded, so that its delta is folded."""

    rows: list[tuple[Id, int]]
    watermark_ms: int
    recorded: bool


def _epochs(ids: st.SearchStrategy[Id]) -> st.SearchStrategy[list[Epoch]]:
    times = st.integers(-500, 2000)
    few = st.lists(ids, min_size=1, max_size=12, unique=True)
    rows = few.flatmap(lambda some: st.lists(st.tuples(st.sampled_from(some) | ids, times), max_size=25))
    return st.lists(st.builds(Epoch, rows, times, st.booleans()), max_size=8)


TEXTS = st.text(max_size=12) | st.sampled_from(["é", "e\u0301", "😀", "a\x00", ""])
HISTORIES = st.one_of(
    st.tuples(st.just(pa.string()), _epochs(TEXTS)),
    st.tuples(st.just(pa.binary()), _epochs(st.binary(max_size=40))),
    st.tuples(st.just(pa.binary(16)), _epochs(st.binary(min_size=16, max_size=16))),
)


def _all_alike(ids: pa.Array) -> U64:
    return np.full(len(ids), 2**64 - 1, np.uint64)


def _two_values(ids: pa.Array) -> U64:
    return of_ids(ids) << np.uint64(63)


@contextmanager
def _always_maybe() -> Iterator[None]:
    with patch.object(bloom.Filter, "maybe", lambda _, probe: np.arange(len(probe.prefixes))):
        yield


@contextmanager
def _runs_of(ids: int, factor: int) -> Iterator[None]:
    with (
        patch.object(runs, "RUN_IDS", ids),
        patch.object(bucket, "RUN_IDS", ids),
        patch.object(runs, "FACTOR", factor),
    ):
        yield


@contextmanager
def _room_for(buckets: int, ids_of_a_run: int) -> Iterator[None]:
    with patch.object(catalog, "BUCKETS_MAX", buckets), _runs_of(ids_of_a_run, 2):
        yield


@pytest.mark.parametrize(
    ("hash_of", "circumstances"),
    [
        pytest.param(of_ids, nullcontext, id="as it is"),
        pytest.param(of_ids, _always_maybe, id="the filter always says maybe"),
        pytest.param(_all_alike, nullcontext, id="all hashes are equal"),
        pytest.param(_two_values, lambda: _runs_of(3, 2), id="two hashes and tiny runs"),
        pytest.param(of_ids, lambda: _runs_of(3, 2), id="tiny runs"),
        pytest.param(of_ids, lambda: _room_for(2, 10**6), id="most buckets share one"),
        pytest.param(_two_values, lambda: _room_for(0, 3), id="all buckets share one of tiny runs"),
        pytest.param(_all_alike, lambda: _runs_of(10**6, 10**6), id="all hashes are equal and every run is merged"),
    ],
)
def test_the_catalog_is_equal_to_plain_sets(
    hash_of: Callable[[pa.Array], U64], circumstances: Callable[[], AbstractContextManager[None]]
) -> None:
    @settings(max_examples=examples(50))
    @given(HISTORIES, st.sampled_from([1, 250, 600_000]))
    def equal(history: tuple[pa.DataType, list[Epoch]], bucket_ms: int) -> None:
        kind, epochs = history
        with circumstances():
            _compare(Catalog(WINDOWS, bucket_ms, hash_of), epochs, kind)

    equal()


def _compare(known: Catalog, epochs: list[Epoch], kind: pa.DataType) -> None:
    plain = PlainSets()
    for epoch, watermark in zip(epochs, accumulate((epoch.watermark_ms for epoch in epochs), max), strict=True):
        known.expire(watermark)
        assert known.counters.expired == plain.expire(watermark)
        ids = [identity for identity, _ in epoch.rows]
        new = known.decide(pa.array(ids, kind)).tolist()
        assert new == plain.decide(ids)
        counted = known.counters
        assert (counted.looked_up, counted.duplicates) == (len(ids), new.count(False))
        assert counted.surely_new + counted.false_positives + counted.duplicates == counted.looked_up
        if epoch.recorded:
            delta = [row for row, is_new in zip(epoch.rows, new, strict=True) if is_new]
            named = pa.array([identity for identity, _ in delta], kind)
            known.fold(pa.table({"id": named, "event_time_ms": pa.array([time for _, time in delta], pa.int64())}))
            plain.fold(delta)
        assert len(known) == len(plain)


def test_a_filter_that_always_says_maybe_drops_nothing_and_is_counted() -> None:
    known = Catalog(WINDOWS)
    known.fold(pa.table({"id": ["a", "b"], "event_time_ms": [1, 1]}))
    with _always_maybe():
        assert known.decide(pa.array(["c", "a", "d"])).tolist() == [True, False, True]
    assert (known.counters.surely_new, known.counters.false_positives, known.counters.duplicates) == (0, 2, 1)
