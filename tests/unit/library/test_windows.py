"""One rule of lateness for windows, ids and late rows (R6)."""

from __future__ import annotations

import sqlite3
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from effectively_once.epoch import rows
from effectively_once.state.lateness import Windows

TIMES = st.integers(-(10**6), 10**6)
WINDOWS = st.builds(Windows, st.integers(1, 5000), st.integers(0, 5000))


def test_the_bounds_of_a_window_are_as_the_reference_has_them() -> None:
    windows = Windows(60_000, 120_000)
    assert [windows.start(t) for t in (0, 59_999, 60_000, -1)] == [0, 0, 60_000, -60_000]
    # 60 s + 120 s: the window of 0 is closed by a watermark of 180 s and not by one millisecond less.
    assert [windows.closed(0, watermark) for watermark in (None, 179_999, 180_000)] == [False, False, True]


@given(WINDOWS, TIMES)
def test_a_time_lies_in_its_window(windows: Windows, time_ms: int) -> None:
    start = windows.start(time_ms)
    assert start <= time_ms < start + windows.length_ms
    assert start % windows.length_ms == 0


@given(WINDOWS, TIMES, st.lists(TIMES, min_size=1, max_size=20))
def test_a_window_is_newly_closed_at_most_once_as_the_watermark_rises(
    windows: Windows, time_ms: int, watermarks: list[int]
) -> None:
    start = windows.start(time_ms)
    rising = [None, *sorted(watermarks)]
    closings = [after for before, after in pairwise(rising) if windows.newly_closed(start, before, after)]
    assert len(closings) == int(windows.closed(start, rising[-1]))


def test_late_in_sql_is_the_same_rule() -> None:
    """Spark has the same operators; `tests/spark` has it decide at the bounds."""
    database = sqlite3.connect(":memory:")
    database.create_function("pmod", 2, lambda number, by: number % by, deterministic=True)

    @given(WINDOWS, TIMES, TIMES | st.none(), st.integers(-2, 2))
    def same(windows: Windows, time_ms: int, watermark_ms: int | None, off_ms: int) -> None:
        start = windows.start(time_ms)
        bound_ms = start + windows.length_ms + windows.lateness_ms + off_ms
        watermark = bound_ms if watermark_ms is None else watermark_ms
        (late,) = database.execute(f"SELECT {rows.late('?1', windows, watermark)}", (time_ms,)).fetchone()
        assert bool(late) == windows.closed(start, watermark)

    same()
    database.close()
