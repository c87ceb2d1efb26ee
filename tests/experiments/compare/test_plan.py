"""A plan is a function of its seed, and what cannot be played is refused."""

from __future__ import annotations

import pytest

from effectively_once_jobs.system_usage.usage import ASKED_AT_ONCE
from tests.experiments.compare.figures import out_of_order
from tests.experiments.compare.plan import Plan
from tests.harness.workload.errors import InputError


def test_the_same_seed_is_the_same_plan() -> None:
    one, same, other = Plan(7), Plan(7), Plan(8)
    assert [record.value for record in one.stream()] == [record.value for record in same.stream()]
    assert one.strikes == same.strikes != other.strikes
    ids = [record.id for record in one.stream() if record.id]
    frauds = [one.is_fraud(id_) for id_ in ids]
    assert frauds == [same.is_fraud(id_) for id_ in ids] != [other.is_fraud(id_) for id_ in ids]
    assert 0.01 < sum(frauds) / len(ids) < 0.03


def test_drivers_are_killed_after_executors() -> None:
    assert [one.target for one in Plan(7, kills=2, driver_kills=1).strikes] == ["executor", "executor", "driver"]


def test_parts_are_all_records_in_their_order() -> None:
    plan = Plan(7)
    assert [n for part in plan.parts.values() for n in part] == [record.n for record in plan.stream()]


@pytest.mark.parametrize("kills", [0, 1, 3, 6])
def test_kills_come_one_after_the_other_while_there_are_look_ups(kills: int) -> None:
    strikes = Plan(7, kills=kills, driver_kills=0).strikes
    calls = [one.call for one in strikes]
    assert len(calls) == kills
    assert calls == sorted(set(calls))
    assert all(0 < call < Plan.struck // ASKED_AT_ONCE for call in calls)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rate": 0.5}, "RATE is 0.5: from 0 to 0.02"),
        ({"rate": -0.1}, "RATE is -0.1"),
        ({"kills": 6, "driver_kills": 1}, "kills are 6 of executors and 1 of drivers: from 0 to 6 together"),
        ({"kills": -1, "driver_kills": 1}, "kills are -1"),
        ({"pace": 0}, "pace is 0"),
        ({"calm": 10}, "calm is 10: it must be 100 or more"),
    ],
)
def test_what_cannot_be_played_is_refused(changes: dict[str, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Plan(7, **changes)  # type: ignore[arg-type]


def test_order_is_that_of_first_rows_of_a_user() -> None:
    def row(id_: str, offset: int, at_ms: float, user: str = "u") -> dict[str, object]:
        return {"id": id_, "offset": offset, "user": user, "at_ms": at_ms}

    batches = [10.0, 20.0]
    in_order = [row("a", 0, 11), row("b", 1, 12), row("x", 0, 13, "other"), row("c", 2, 21)]
    assert out_of_order(in_order, batches) == (0, 0)
    # A portion that is counted again repeats its order, and changes nothing about first rows.
    assert out_of_order([*in_order, *in_order], batches) == (0, 0)
    assert out_of_order([row("a", 0, 11), row("c", 2, 12), row("b", 1, 13), row("d", 3, 14)], batches) == (1, 0)
    assert out_of_order([row("a", 0, 11), row("c", 2, 12), row("b", 1, 21), row("d", 3, 22)], batches) == (1, 1)
