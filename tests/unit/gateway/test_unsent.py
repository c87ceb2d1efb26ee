"""What a gateway can vouch for: the least event time of what is on its way, and never less than it said."""

from __future__ import annotations

import pytest

from effectively_once.gateway.unsent import Unsent


@pytest.fixture
def now() -> list[int]:
    return [100_000]


def unsent(now: list[int], disorder_ms: int = 0) -> Unsent:
    return Unsent(disorder_ms, lambda: now[0])


def test_nothing_is_said_of_what_is_on_its_way(now: list[int]) -> None:
    one = unsent(now)
    assert one.begin(None) == 100_000
    now[0] = 105_500
    assert one.begin(None) == 105_500
    assert one.vouch() == 100_000
    one.end(100_000)
    assert one.vouch() == 105_000, "seconds are rounded down"
    one.end(105_500)
    assert one.vouch() == 105_500


def test_each_of_several_of_one_second_holds_it(now: list[int]) -> None:
    one = unsent(now)
    times = [one.begin(99_000 + n) for n in range(3)]
    for time_ms in times:
        assert one.vouch() == 99_000
        one.end(time_ms)
    assert one.vouch() == 100_000


def test_a_clock_that_is_set_back_takes_nothing_back(now: list[int]) -> None:
    one = unsent(now)
    assert one.vouch() == 100_000
    now[0] = 50_000
    assert one.vouch() == 100_000
    one.begin(None)
    assert one.behind == 1, "it may be late, and is told"


def test_a_program_that_gives_event_times_has_room_for_disorder(now: list[int]) -> None:
    one = unsent(now, disorder_ms=10_000)
    assert one.vouch() == 90_000
    one.begin(90_000)
    assert one.behind == 0
    one.begin(89_999)
    assert one.behind == 1
