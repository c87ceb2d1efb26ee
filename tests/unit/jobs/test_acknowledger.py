"""The acknowledger: an event is successful when all its tuples are, in whatever order that is reported."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once_jobs.system_usage.acknowledger import Acknowledger, Report

# No choice of some of these comes to 0 by XOR, which numbers drawn at random do with a probability of 2^-63.
NUMBER = st.integers(0, 62).map(lambda bit: 1 << bit)


@st.composite
def trees(draw: st.DrawFn) -> tuple[int, list[Report]]:
    """Draw an event's tuples, each emitted by an earlier one: its root, and what is reported of each of them."""
    tuples = draw(st.lists(NUMBER, min_size=1, max_size=12, unique=True))
    parents = [draw(st.integers(0, at - 1)) for at in range(1, len(tuples))]
    xors = list(tuples)
    for child, parent in enumerate(parents, 1):
        xors[parent] ^= tuples[child]
    return tuples[0], [Report(tuples[0], xor) for xor in xors]


@given(trees(), st.randoms(use_true_random=False))
def test_an_event_ends_with_the_last_report_in_any_order(tree: tuple[int, list[Report]], rng: random.Random) -> None:
    root, reports = tree
    acknowledger = Acknowledger[str](5.0)
    acknowledger.track(root, "event", 0.0)
    rng.shuffle(reports)
    ends = [acknowledger.take_report(one) for one in reports]
    assert ends == [None] * (len(reports) - 1) + [("event", True)]
    assert len(acknowledger) == 0


@given(trees(), st.data())
def test_an_event_of_which_a_report_is_missing_times_out(tree: tuple[int, list[Report]], data: st.DataObject) -> None:
    root, reports = tree
    acknowledger = Acknowledger[str](5.0)
    acknowledger.track(root, "event", 0.0)
    del reports[data.draw(st.integers(0, len(reports) - 1))]
    assert ("event", True) not in [acknowledger.take_report(one) for one in reports]
    assert acknowledger.time_out(4.9) == []
    assert acknowledger.time_out(5.0) == ["event"]
    assert acknowledger.time_out(9.0) == []


@given(trees(), st.data())
def test_one_failed_tuple_fails_the_event_and_what_comes_later_is_nobodys(
    tree: tuple[int, list[Report]], data: st.DataObject
) -> None:
    root, reports = tree
    at = data.draw(st.integers(0, len(reports) - 1))
    reports[at] = Report(root, reports[at].xor, failed=True)
    acknowledger = Acknowledger[str](5.0)
    acknowledger.track(root, "event", 0.0)
    ends = [acknowledger.take_report(one) for one in reports]
    assert [one for one in ends if one is not None] == [("event", False)]
    assert acknowledger.time_out(100.0) == []


def test_late_reports_of_a_first_emission_do_not_complete_its_replay() -> None:
    acknowledger = Acknowledger[str](5.0)
    acknowledger.track(7, "event", 0.0)
    assert acknowledger.time_out(5.0) == ["event"]
    acknowledger.track(8, "event", 6.0)
    assert acknowledger.take_report(Report(7, 7)) is None
    assert len(acknowledger) == 1
    assert acknowledger.take_report(Report(8, 8)) == ("event", True)


def test_time_outs_come_in_the_order_of_emission() -> None:
    acknowledger = Acknowledger[str](5.0)
    for number, at_s in ((3, 0.0), (1, 1.0), (2, 2.0)):
        acknowledger.track(number, f"event {number}", at_s)
    assert acknowledger.time_out(6.5) == ["event 3", "event 1"]


@pytest.mark.parametrize("number", [0, 7])
def test_a_number_that_cannot_be_told_apart_is_refused(number: int) -> None:
    acknowledger = Acknowledger[str](5.0)
    acknowledger.track(7, "event", 0.0)
    with pytest.raises(ValueError, match=f"tuple {number} cannot be tracked"):
        acknowledger.track(number, "another", 0.0)
