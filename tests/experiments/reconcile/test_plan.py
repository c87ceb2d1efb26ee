"""A plan is a function of its seed, tries the bound to the millisecond, and what cannot be played is refused."""

from __future__ import annotations

import pytest

from tests.experiments.reconcile.plan import KILLS_MAX, MINUTES_MIN, Plan
from tests.harness.workload.errors import InputError
from tests.harness.workload.record import is_late


def test_the_same_seed_is_the_same_plan() -> None:
    one, same, other = Plan(7, 1_000), Plan(7, 1_000), Plan(8, 1_000)
    assert [r.value for r in one.subject.records()] == [r.value for r in same.subject.records()]
    assert [r.value for r in one.subject.records()] != [r.value for r in other.subject.records()]
    assert one.strikes == same.strikes


def test_more_minutes_are_more_epochs_of_the_same_records() -> None:
    short, long = Plan(7, 2_400), Plan(7, 2_400, minutes=24)
    assert (short.batch_rows, long.batch_rows) == (200, 100)
    first, *_, last = (one.event_time_ms for one in long.subject.records() if one.kind == "fresh")
    assert first is not None
    assert last is not None
    assert last - first > 20 * 60_000
    assert long.strikes == short.strikes


@pytest.mark.parametrize("kills", range(KILLS_MAX + 1))
def test_executors_and_drivers_are_killed_in_turn_while_there_are_epochs(kills: int) -> None:
    strikes = Plan(7, 1_000, kills).strikes
    assert [one.target for one in strikes] == ["executor", "driver", "executor", "driver"][:kills]
    assert [one.call for one in strikes] == sorted({one.call for one in strikes})
    assert all(1 < one.call < MINUTES_MIN for one in strikes)


def test_records_at_the_bound_are_late_from_the_very_millisecond_on() -> None:
    plan = Plan(7, 1_000)
    subject = plan.subject
    attempts = plan.attempts(1_750_000_123_456, 10)
    assert [one.distance_ms for one in attempts] == [-1, 0, 1]
    for attempt in attempts:
        assert attempt.record.event_time_ms is not None
        late = is_late(
            attempt.record.event_time_ms, attempt.setter.event_time_ms, subject.window_ms, subject.lateness_ms
        )
        assert late == (attempt.distance_ms >= 0) == (attempt.record.kind == "late")
    assert [one.n for attempt in attempts for one in (attempt.setter, attempt.record)] == list(range(10, 16))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"records": 999}, "records is 999: with fewer than 1,000"),
        ({"kills": KILLS_MAX + 1}, "kills is 5: from 0 to 4"),
        ({"kills": -1}, "kills is -1"),
        ({"minutes": MINUTES_MIN - 1}, "minutes is 11: in fewer than 12"),
    ],
)
def test_what_cannot_be_played_is_refused(changes: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Plan(7, **changes)
