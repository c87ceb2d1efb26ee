"""How old an unread record is, by where its topic ended at moments of the past."""

from __future__ import annotations

import pytest

from effectively_once.driver.past_ends import LONGEST_S, MOST, PastEnds

S = 1000.0
HOUR_S = 3600.0


def test_between_two_looks_records_are_taken_to_have_come_evenly() -> None:
    past = PastEnds()
    for time_s, end in ((0, 100), (30, 100), (60, 160)):
        past.note(time_s * S, {"0": end})
    assert past.find_age_s("0", 100) == 30, "it came right after the second look at the earliest"
    assert past.find_age_s("0", 130) == 15
    assert past.find_age_s("0", 160) == 0, "it is still to come"
    assert past.find_age_s("0", 40) == 60, "older than the first look: as old as that"


def test_a_start_far_behind_asks_further_and_further_back_and_no_further_than_needed() -> None:
    now_s, asked = 10 * 86_400.0, []

    def ask(time_ms: float) -> dict[str, int]:
        """One record a second."""
        asked.append(now_s - time_ms / S)
        return {"0": round(time_ms / S)}

    past = PastEnds()
    past.note(now_s * S, {"0": round(now_s)})
    past.look_back({"0": round(now_s - HOUR_S)}, ask)
    assert past.find_age_s("0", round(now_s - HOUR_S)) == pytest.approx(HOUR_S)
    assert asked == [30 * 2**n for n in range(8)], "the last one, 3,840 s, is the first beyond the hour"


def test_a_start_that_is_not_behind_asks_nobody() -> None:
    past = PastEnds()
    past.note(0, {"0": 7})
    past.look_back({"0": 7}, lambda _: pytest.fail("asked"))
    assert past.find_age_s("0", 7) == 0


def test_what_is_older_than_a_start_looks_back_is_told_as_that_old() -> None:
    past = PastEnds()
    past.note(0, {"0": 9})
    past.look_back({"0": 3}, lambda _: {"0": 5})
    assert past.find_age_s("0", 3) == LONGEST_S


def test_an_end_that_sinks_is_a_new_leader_that_has_not_heard_of_it_yet() -> None:
    past = PastEnds()
    for time_s, end in ((0, 10), (30, 8), (60, 12)):
        past.note(time_s * S, {"0": end})
    assert past.find_age_s("0", 10) == 30


def test_moments_that_nobody_needs_are_forgotten_and_those_of_a_long_lag_are_thinned_out() -> None:
    past = PastEnds()
    for number in range(10 * MOST):
        past.note(number * 30 * S, {"0": number})
        past.forget({"0": max(0, number - 2)})
    assert len(past._moments) == 3
    for number in range(10 * MOST, 20 * MOST):
        past.note(number * 30 * S, {"0": number})
        past.forget({"0": 10 * MOST - 1})
    assert len(past._moments) <= MOST
    assert past.find_age_s("0", 10 * MOST - 1) == pytest.approx((10 * MOST) * 30, rel=0.01)
