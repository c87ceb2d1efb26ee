"""A plan is a function of its seed, and what cannot be played is refused."""

from __future__ import annotations

import orjson
import pytest

from effectively_once_jobs.two_ways.settings import DEDUP, SNAPSHOTS
from effectively_once_jobs.two_ways.stage import NOTED, TAKEN
from tests.experiments.plan import plan_of
from tests.experiments.strikes import DRIVER, EXECUTOR
from tests.experiments.two_ways.experiment import EXPERIMENT
from tests.experiments.two_ways.plan import BURST, OPERATOR, PACED, Arm, Part, Plan
from tests.harness.workload.errors import InputError


def test_the_same_seed_is_the_same_plan() -> None:
    one, same, other = Plan(7), Plan(7), Plan(8)
    assert [record.value for record in one.stream(50)] == [record.value for record in same.stream(50)]
    assert [record.value for record in one.stream(50)] != [record.value for record in other.stream(50)]
    arm, part = Arm(DEDUP, 8), Part(BURST, 3, range(3_000))
    assert one.strikes(arm, part) == same.strikes(arm, part) != other.strikes(arm, part)
    assert plan_of(Plan, orjson.loads(orjson.dumps(one))) == one


@pytest.mark.parametrize("kind", [BURST, PACED])
@pytest.mark.parametrize("operators", [1, 2, 8])
def test_both_ways_are_struck_at_the_same_operators_downwards(kind: str, operators: int) -> None:
    part = Part(kind, 3, range(100, 1_100))
    snapshots, dedup = (Plan(7).strikes(Arm(way, operators), part) for way in (SNAPSHOTS, DEDUP))
    assert [(one.operator, one.rows) for one in snapshots] == [(one.operator, one.rows) for one in dedup]
    assert [one.operator for one in dedup] == sorted(one.operator for one in dedup)
    assert [one.rows for one in dedup] == sorted(one.rows for one in dedup)
    assert all(0 < one.rows < 600 for one in dedup)
    assert {one.target for one in dedup} == {OPERATOR}
    assert [one.target for one in snapshots] == [EXECUTOR, EXECUTOR, DRIVER if kind == PACED else EXECUTOR]
    assert {one.stage for one in snapshots} == {TAKEN}
    assert len({one.stage for one in dedup}) == 3


def test_a_single_kill_is_an_operators_worst_moment_and_no_driver() -> None:
    part = Part(PACED, 1, range(1_000))
    assert [one.stage for one in Plan(7).strikes(Arm(DEDUP, 4), part)] == [NOTED]
    assert [one.target for one in Plan(7).strikes(Arm(SNAPSHOTS, 4), part)] == [EXECUTOR]


@pytest.mark.parametrize("plan", [Plan(7), Plan(7, **EXPERIMENT.small)])
def test_every_arm_has_all_parts_and_the_control_comes_last(plan: Plan) -> None:
    assert [arm.name for arm in plan.arms][-1] == f"no_catalog_{plan.operators[0]}"
    for arm in plan.arms:
        numbers = [n for part in plan.parts(arm) for n in part.numbers]
        assert numbers == [record.n for record in plan.stream(len(numbers))]
    assert [part.name for part in plan.parts(plan.arms[-1])] == ["warm-up 0", f"burst {plan.kills[-1]}"]
    kinds = {part.kind for part in plan.parts(plan.arms[0])[1:] if part.kills == plan.kills[-1]}
    assert kinds == {BURST, PACED}


def test_without_kills_there_is_no_control() -> None:
    assert all(arm.catalog for arm in Plan(7, kills=(0,)).arms)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"operators": ()}, "operators are"),
        ({"operators": (4, 2)}, "ascending"),
        ({"operators": (0,)}, "from 1"),
        ({"operators": (33,)}, "to 32"),
        ({"kills": (0, 7)}, "from 0 to 6"),
        ({"kills": (-1,)}, "kills are"),
        ({"paced": 10}, "paced is 10: it must be 100 or more"),
        ({"pace": 0}, "pace is 0"),
        ({"burst": 2_000}, "too short for 3 kills: 3,000 or more"),
    ],
)
def test_what_cannot_be_played_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Plan(7, **changes)  # type: ignore[arg-type]
