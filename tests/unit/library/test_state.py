"""Windowed counts: final once, and right, however the input is divided into epochs (R6, R7)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once import Count, Max, Min, Sum
from effectively_once.ledger import digest
from effectively_once.state import sums
from effectively_once.state import windows as state
from effectively_once.state.accumulators import accumulators
from effectively_once.state.lateness import Windows
from effectively_once.state.windows import WindowState

WINDOWS = Windows(100, 150)
EVENTS = st.lists(st.tuples(st.sampled_from(["ann", "bob", "cem"]), st.integers(0, 1500)), max_size=60)
COUNT = accumulators({"count": Count()}, pa.schema([]))
FAR_AHEAD = ("closer", 10**6)


def _delta(counts: Counter[tuple[str, int]]) -> pa.Table:
    rows = [{"key": user, "window_start_ms": start, "count": n} for (user, start), n in counts.items()]
    return pa.Table.from_pylist(rows, state.schema(COUNT))


def _final(state: WindowState, previous_ms: int | None, watermark_ms: int | None) -> list[tuple[str, int, int]]:
    return [tuple(row.values()) for row in state.final(previous_ms, watermark_ms).to_pylist()]


def _divided(events: list[tuple[str, int]], cuts: list[int]) -> list[list[tuple[str, int]]]:
    """Divide events into epochs, then two more: a record far ahead, and one that pins the watermark it brings."""
    places = sorted({min(cut, len(events)) for cut in cuts})
    bounds = [0, *places, len(events)]
    return [events[start:end] for start, end in pairwise(bounds)] + [[FAR_AHEAD], []]


@given(EVENTS, st.lists(st.integers(0, 60), max_size=12))
def test_every_window_is_final_exactly_once_with_the_count_of_all_its_records(
    events: list[tuple[str, int]], cuts: list[int]
) -> None:
    counts = WindowState(WINDOWS, COUNT)
    emitted: list[tuple[str, int, int]] = []
    expected: Counter[tuple[str, int]] = Counter()
    previous: int | None = None
    watermark: int | None = None
    for epoch in _divided(events, cuts):
        counts.expire(previous)
        timely = [(user, time) for user, time in epoch if not WINDOWS.closed(WINDOWS.start(time), watermark)]
        final = _final(counts, previous, watermark)
        assert final == _final(counts, previous, watermark)  # a repeat emits the same
        emitted += final
        counts.fold(_delta(Counter((user, WINDOWS.start(time)) for user, time in timely)))
        expected.update((user, time - time % 100) for user, time in timely)
        times = [time for time in (watermark, *(time for _, time in timely)) if time is not None]
        previous, watermark = watermark, max(times, default=None)
    del expected["closer", FAR_AHEAD[1]]  # the record far ahead closes every window but its own
    assert sorted(emitted) == sorted((user, start, n) for (user, start), n in expected.items())


def test_a_window_is_emitted_in_the_epoch_whose_watermark_closes_it_and_dropped_after() -> None:
    counts = WindowState(WINDOWS, COUNT)
    counts.fold(_delta(Counter({("ann", 0): 2, ("bob", 0): 1, ("ann", 100): 4})))
    counts.fold(_delta(Counter({("ann", 0): 3})))
    assert _final(counts, None, 249) == []
    assert _final(counts, None, 250) == [("ann", 0, 5), ("bob", 0, 1)]
    assert _final(counts, 250, 349) == []
    assert _final(counts, 250, 350) == [("ann", 100, 4)]
    counts.expire(250)
    assert _final(counts, None, 10**6) == [("ann", 100, 4)]


@pytest.mark.parametrize("deltas", [state.PARTS - 1, state.PARTS, state.PARTS + 1, state.PARTS + 2, 3 * state.PARTS])
def test_a_window_of_more_deltas_than_are_kept_apart_has_every_count_once(deltas: int) -> None:
    """Epochs are short beside windows: most windows are of many deltas."""
    counts = WindowState(WINDOWS, COUNT)
    for number in range(deltas):
        # Powers of two: a part that is lost, or there twice, cannot make up for another.
        counts.fold(_delta(Counter({("ann", 0): 2**number, ("bob", 0): 1})))
    assert _final(counts, None, 10**6) == [("ann", 0, 2**deltas - 1), ("bob", 0, deltas)]


def test_rows_that_differ_in_any_column_are_digested_by_other_bytes() -> None:
    rows: Counter[tuple[str, int]] = Counter({("a", 1): 2, ("a", 2): 1, ("b", 1): 2, ("a|1", 2): 2, ("", 1): 2})
    columns = state.canonical(_delta(rows))
    assert len({digest.of_rows_in(columns.slice(row, 1)) for row in range(len(rows))}) == len(rows)


ALL = accumulators(
    {"rows": Count(), "total": Sum("amount"), "least": Min("amount"), "most": Max("amount")},
    pa.schema([("amount", pa.int64())]),
)


EDGES = st.sampled_from([2**63 - 1, -(2**63), 2**62, -(2**62), 2**53 + 1, 1, 0, -1])
LARGE = st.lists(st.tuples(st.sampled_from(["ann", "bob"]), st.integers(-250, 250), EDGES | st.integers(-9, 9)))


@given(LARGE, st.lists(st.integers(0, 60), max_size=40))
def test_no_sum_is_wrapped_or_rounded_however_the_rows_are_divided(
    rows: list[tuple[str, int, int]], cuts: list[int]
) -> None:
    """What 64 bits hold is a result, although a part of it may be larger; the rest is told apart, and is exact.

    Times before 1970 too; more deltas than are kept apart.
    """
    windows = Windows(100, 10**9)
    folded, bound = WindowState(windows, ALL), 0
    places = sorted({min(cut, len(rows)) for cut in cuts})
    for start, end in pairwise([0, *places, len(rows)]):
        users, times, amounts = zip(*rows[start:end], strict=True) if end > start else ((), (), ())
        columns = {
            "user": pa.array(users, pa.string()),
            "event_time_ms": pa.array(times, pa.int64()),
            "amount": pa.array(amounts, pa.int64()),
        }
        delta = state.partial(pa.table(columns), ("user",), ALL, windows)
        bound += state.largest(delta, ALL) or 0
        folded.fold(delta)
    found, wide = state.final_of(folded.final(None, 10**12), ALL)
    by_key: dict[tuple[int, str], list[int]] = {}
    for user, time, amount in rows:
        by_key.setdefault((time - time % 100, user), []).append(amount)
    expected = [
        (user, start, len(some), sum(some), min(some), max(some)) for (start, user), some in sorted(by_key.items())
    ]
    assert [tuple(row.values()) for row in found.to_pylist()] == [row for row in expected if sums.holds(row[3])]
    assert [tuple(one.exact.values()) for one in wide] == [row for row in expected if not sums.holds(row[3])]
    assert not wide or bound >= sums.LANE, "else nobody looks for it"


@pytest.mark.parametrize("rounds", [1, 2, state.PARTS + 3])
def test_windows_as_many_as_rows_are_each_final_once(rounds: int) -> None:
    """One clock that jumps: each row of an epoch has a window of its own."""
    number = 1000
    counts = WindowState(WINDOWS, COUNT)
    starts = [(7919 * n % number) * 100 for n in range(number)]
    for _ in range(rounds):
        counts.fold(_delta(Counter({(f"u{start}", start): 1 for start in starts})))
    half = number * 100 // 2
    first = _final(counts, None, half + 150)
    counts.expire(half + 150)
    rest = _final(counts, half + 150, 10**9)
    assert first + rest == [(f"u{start}", start, rounds) for start in range(0, number * 100, 100)]
    assert len(first) == number // 2


def _spread(rows: int, windows: int) -> pa.Table:
    """So many rows in so many windows, as equally as may be, in no order."""
    keys = [f"user-{number}" for number in range(rows)]
    starts = [number * 7 % windows * 100 for number in range(rows)]
    columns = {"key": keys, "window_start_ms": starts, "count": [number + 1 for number in range(rows)]}
    return pa.table(columns, state.schema(COUNT))


@pytest.mark.deep
def test_event_times_that_are_spread_over_many_windows_take_no_copy_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy takes longer than all else of a window; 20,000 of them and as many merges took longer than an epoch."""
    copied: list[int] = []
    copy = state._copy

    def counted(rows: pa.RecordBatch, places: pa.Array) -> pa.RecordBatch:
        copied.append(len(places))
        return copy(rows, places)

    monkeypatch.setattr(state, "_copy", counted)
    counts = WindowState(WINDOWS, COUNT)
    number = 5_000
    rows = _spread(number, number)
    for _ in range(state.PARTS + 1):
        counts.fold(rows)
    assert sum(copied) == (state.PARTS + 2) * number
    assert len(copied) <= (state.PARTS + 2) * (number // 256 + 1)
    final = counts.final(None, 10**9)
    assert final["count"].to_pylist() == [
        (state.PARTS + 1) * row["count"] for row in rows.sort_by("window_start_ms").to_pylist()
    ]


@pytest.mark.parametrize("windows", [1, 2, 3, 40, 700, 2_000])
def test_a_window_keeps_few_rows_of_others_in_memory(windows: int) -> None:
    """Else one that is far ahead would keep the rows of all that came with it."""
    counts, rows = WindowState(WINDOWS, COUNT), 2_000
    counts.fold(_spread(rows, windows))
    parts = [part for some in counts._parts.values() for part in some]
    assert sum(part.num_rows for part in parts) == rows
    whole = _spread(rows, windows).combine_chunks().to_batches()[0].get_total_buffer_size()
    for part in parts:
        share = max(part.num_rows, 256) / rows
        assert part.get_total_buffer_size() <= 1.2 * share * whole + 1_000
    assert counts.final(None, 10**9).num_rows == rows
