"""The dedup catalog: exact, in order of source coordinates, until a window closes (S3)."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from effectively_once import catalog
from effectively_once.catalog import Catalog
from effectively_once.windows import Windows

WINDOWS = Windows(100, 50)
ROWS = st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 1000)), max_size=20)


def _delta(rows: list[tuple[str, int]]) -> pa.Table:
    return pa.table({"id": [i for i, _ in rows], "event_time_ms": [t for _, t in rows]}, schema=catalog.SCHEMA)


def _folded(*deltas: list[tuple[str, int]]) -> Catalog:
    known = Catalog(WINDOWS)
    for delta in deltas:
        known.fold(_delta(delta))
    return known


def test_of_two_copies_in_one_epoch_the_first_wins() -> None:
    assert Catalog(WINDOWS).decide(["a", "b", "a", "c", "a", "b"]) == [True, True, False, True, False, False]


def test_a_copy_of_an_earlier_epoch_is_dropped_and_nothing_else_is() -> None:
    assert _folded([("a", 1)], [("b", 250)]).decide(["a", "A", "aa", "", "b"]) == [False, True, True, True, False]


def test_a_copy_whose_time_was_changed_is_still_a_copy() -> None:
    known = _folded([("a", 10)])
    known.fold(_delta([("b", 900)]))
    # The row's own window would be another one: the decision is by id alone, over every live window.
    assert known.decide(["a"]) == [False]


def test_deciding_changes_nothing_so_a_repeat_decides_the_same() -> None:
    known = _folded([("a", 1)])
    assert known.decide(["a", "b"]) == known.decide(["a", "b"]) == [False, True]
    assert len(known) == 1


def test_an_id_leaves_when_its_window_closes_and_not_before() -> None:
    known = _folded([("a", 0), ("b", 99), ("c", 100)])
    for watermark_ms, live in ((None, 3), (149, 3), (150, 1), (249, 1), (250, 0)):  # window end + 50
        known.expire(watermark_ms)
        assert len(known) == live, watermark_ms
    assert known.decide(["a"]) == [True]  # by then the copy is late by its own time and does not get here


def test_digested_are_the_ids() -> None:
    assert list(catalog.canonical(_delta([("a", 1), ("é", 2)]))) == [b"a", "é".encode()]


@given(st.lists(ROWS, max_size=8))
def test_every_id_in_time_is_accepted_exactly_once_over_all_epochs(epochs: list[list[tuple[str, int]]]) -> None:
    known = Catalog(WINDOWS)
    accepted: list[str] = []
    fixed: dict[str, int] = {}  # an id's time is fixed at its first send
    watermark: int | None = None
    expected: set[str] = set()
    for rows in epochs:
        known.expire(watermark)
        sends = [(identity, fixed.setdefault(identity, time)) for identity, time in rows]
        timely = [row for row in sends if not WINDOWS.closed(WINDOWS.start(row[1]), watermark)]
        new = [row for row, is_new in zip(timely, known.decide([i for i, _ in timely]), strict=True) if is_new]
        known.fold(_delta(new))
        accepted += [identity for identity, _ in new]
        expected |= {identity for identity, _ in timely}
        times = [time for time in (watermark, *(t for _, t in new)) if time is not None]
        watermark = max(times, default=None)
    assert sorted(accepted) == sorted(expected)
