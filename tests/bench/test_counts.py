"""An arm that publishes other counts than were sent is not measured."""

from __future__ import annotations

import pytest

from tests.bench import counts
from tests.bench.errors import BenchError

MINUTE = 60_000
TRUTH = {0: 10, MINUTE: 20, 2 * MINUTE: 30}


def _line(user: str, start: int, count: int) -> bytes:
    return b'{"user":"%s","window_start_ms":%d,"count":%d}' % (user.encode(), start, count)


def test_the_last_count_of_a_user_and_window_replaces_those_before() -> None:
    lines = [_line("a", 0, 1), _line("b", 0, 5), _line("a", 0, 3), _line("a", MINUTE, 2)]

    assert counts.per_window(lines) == {0: 8, MINUTE: 2}


def test_windows_that_are_still_open_are_not_compared() -> None:
    assert counts.compare("ours", {0: 10, MINUTE: 20}, TRUTH, 2 * MINUTE, MINUTE) == 2


@pytest.mark.parametrize("found", [{0: 10, MINUTE: 19}, {0: 10, MINUTE: 21}, {0: 10}])
def test_a_lost_or_doubled_event_is_refused(found: dict[int, int]) -> None:
    with pytest.raises(BenchError, match=r"1 of 2 windows are wrong; the one at 60000"):
        counts.compare("ours", found, TRUTH, 2 * MINUTE, MINUTE)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({("a", 0): 5, ("b", 0): 3}, "1 of 1 windows are wrong; the one at 0 of a has 5 events, 4 were sent"),
        ({("a", 0): 4}, "of b has 0 events, 4 were sent"),
        ({("a", 0): 4, ("b", 0): 4, ("c", 0): 1}, "of c has 1 events, 0 were sent"),
    ],
)
def test_user_by_user_it_is_seen_what_makes_up_for_another(found: dict[tuple[str, int], int], why: str) -> None:
    truth = {("a", 0): 4, ("b", 0): 4, ("a", MINUTE): 7}

    assert counts.compare("ours", {("a", 0): 4, ("b", 0): 4}, truth, MINUTE, MINUTE) == 1
    with pytest.raises(BenchError, match=why):
        counts.compare("ours", found, truth, MINUTE, MINUTE)
