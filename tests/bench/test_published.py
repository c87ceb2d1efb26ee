"""An arm that publishes other rows or counts than were sent is not measured."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest

from tests.bench import accepted, counts
from tests.bench.errors import BenchError
from tests.bench.s1_events import Events

EVENTS = Events(1_000, users=50, record_bytes=120)
SENT = [*EVENTS.values()]
UNIQUE = [*dict.fromkeys(SENT)]


def test_each_once_in_any_order_with_what_an_arm_says_beside_it() -> None:
    rows = [orjson.dumps({**orjson.loads(row), "epoch": 3, "source": ["t", 0, 1]}) for row in reversed(UNIQUE)]

    accepted.compare("ours", rows, EVENTS, copies=False)


def test_an_arm_that_keeps_copies_has_them_all() -> None:
    accepted.compare("streams", SENT, EVENTS, copies=True)
    with pytest.raises(
        BenchError, match="streams: 950 rows were accepted, 950 of them different and 0 never sent; 1,000 "
    ):
        accepted.compare("streams", UNIQUE, EVENTS, copies=True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda rows: rows[1:], "949 rows were accepted, 949 of them different and 0 never sent; 950 are due"),
        (lambda rows: [*rows, rows[5]], "951 rows were accepted, 950 of them different"),
        (lambda rows: [rows[1], *rows[1:]], "950 rows were accepted, 949 of them different"),
        (lambda rows: [rows[0].replace(b'"crc":0', b'"crc":1'), *rows[1:]], "1 never sent"),
        (lambda rows: [rows[0].replace(b"xxx", b"xx"), *rows[1:]], "1 never sent"),
        (lambda rows: [b"{}", *rows], "951 rows were accepted, 951 of them different and 1 never sent"),
    ],
)
def test_a_lost_doubled_or_changed_row_is_refused(change: Callable[[list[bytes]], list[bytes]], why: str) -> None:
    with pytest.raises(BenchError, match=why):
        accepted.compare("ours", change(UNIQUE), EVENTS, copies=False)


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
