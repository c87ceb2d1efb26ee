"""Suites: what is struck follows from name and seed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.acceptance import BASELINE_MINUTES, subject_of
from tests.harness.deployed import NotDeployedError, Target
from tests.harness.schedule import EARLY_STEPS, Strike, plan_of
from tests.harness.stage import identity
from tests.harness.suites import SUITES, NoSuiteError, counted, suite_named

SEEDS = st.integers(0, 2**31)


def test_all_is_what_was_asked_for() -> None:
    assert counted(suite_named("all").drawn(7)) == [
        {"kind": "pod_delete_graceful", "target": "executor", "count": 2},
        {"kind": "pod_delete_now", "target": "every executor", "count": 1},
        {"kind": "pod_delete_now", "target": "executor", "count": 5},
        {"kind": "sigkill", "target": "every executor", "count": 1},
        {"kind": "sigkill", "target": "executor", "count": 5},
    ]


@given(seed=SEEDS)
def test_smoke_is_five_strikes_of_three_kinds(seed: int) -> None:
    strikes = suite_named("smoke").drawn(seed)
    assert strikes == suite_named("smoke").drawn(seed)
    assert len(strikes) == 5
    assert strikes.count(Strike("sigkill")) == 3
    assert len(set(strikes)) == 3


def test_the_last_strike_of_smoke_varies() -> None:
    assert len({suite_named("smoke").drawn(seed)[-1] for seed in range(20)}) == 2


@pytest.mark.parametrize("name", ["jobs", "", "SMOKE"])
def test_other_suites_are_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(NoSuiteError, match="smoke, all"):
        suite_named(name)


@given(seed=SEEDS, shards=st.integers(1, 8))
def test_a_plan_holds_every_strike_once(seed: int, shards: int) -> None:
    strikes = SUITES["all"].drawn(seed)
    planned = plan_of(seed, strikes, shards)
    assert planned == plan_of(seed, strikes, shards)
    assert sorted(map(repr, strikes)) == sorted(repr(one.strike) for one in planned)
    assert {(one.step, one.sink) for one in planned} == set(EARLY_STEPS)
    assert all(one.shard < shards for one in planned)


def test_plans_differ_by_seed() -> None:
    assert len({tuple(plan_of(seed, SUITES["all"].strikes, 2)) for seed in range(10)}) > 5


@pytest.mark.parametrize("minutes", [BASELINE_MINUTES, *(one.minutes(len(one.drawn(1))) for one in SUITES.values())])
def test_the_streams_of_a_run_can_be_made(minutes: int) -> None:
    subject = subject_of(7, minutes, portioned=True)
    records = list(subject.records())
    assert len(records) == subject.numbers.sent == minutes * 4_500
    assert subject.numbers.late_sent > 0
    assert 0 < subject.portion < subject.numbers.sent


def test_a_run_names_its_pipelines_after_itself() -> None:
    assert identity("20261120-193000-42", "uc") == "uc_2026112019300042"
    assert identity("20261120-193000-42/baseline", "uc") == "uc_2026112019300042"


def test_the_deployed_pipeline_is_found_in_the_stack() -> None:
    output = '{"platform": {"namespaces": {"pipelines": "p"}, "pipelines": {"user_counts": {"name": "user-counts"}}}}'
    assert Target.of(output) == Target("p", {"name": "user-counts"})


@pytest.mark.parametrize(
    "output",
    ["", "{}", '{"platform": null}', '{"platform": {"namespaces": {"pipelines": "p"}, "pipelines": {"x": {}}}}'],
)
def test_a_stack_without_the_pipeline_is_refused(output: str) -> None:
    with pytest.raises(NotDeployedError):
        Target.of(output)
