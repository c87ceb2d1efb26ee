"""System usage in pods: each of four semantics keeps its promise under kills, and errs as it may."""

from __future__ import annotations

import pytest

from effectively_once_jobs.system_usage.settings import ACKNOWLEDGED, ALL, AT_MOST_ONCE, CHECKPOINTED, EXACTLY_ONCE
from tests.acceptance.jobs import Played
from tests.experiments.compare.figures import Figures
from tests.experiments.compare.page import Comparison
from tests.experiments.page import IN_PODS
from tests.harness.results import Verdict


@pytest.fixture
def usage(played: Played) -> Comparison:
    results: Comparison = played("compare")
    return results


@pytest.fixture
def arms(usage: Comparison) -> dict[str, Figures]:
    return {one.semantics: one for one in usage.arms}


def test_all_four_were_played_in_pods_and_all_of_it_was_shown(usage: Comparison) -> None:
    assert usage.jvm == IN_PODS
    assert usage.verdict is Verdict.PASS, [one.says for one in usage.claims if not one.holds]
    assert [one.semantics for one in usage.arms] == [*ALL]


@pytest.mark.parametrize("semantics", ALL)
def test_an_executor_and_a_driver_were_killed_in_a_running_batch(
    usage: Comparison, arms: dict[str, Figures], semantics: str
) -> None:
    assert arms[semantics].kills_hit == usage.plan.kills + usage.plan.driver_kills
    assert arms[semantics].failed_look_ups > 0


def test_at_most_once_loses_and_doubles_nothing(arms: dict[str, Figures]) -> None:
    one = arms[AT_MOST_ONCE]
    assert one.lost > 0
    assert one.doubled == 0


@pytest.mark.parametrize("semantics", [ACKNOWLEDGED, CHECKPOINTED])
def test_at_least_once_doubles_and_loses_nothing(arms: dict[str, Figures], semantics: str) -> None:
    assert arms[semantics].lost == 0
    assert arms[semantics].doubled > 0


def test_exactly_once_counts_everything_once_though_it_is_processed_again(arms: dict[str, Figures]) -> None:
    one = arms[EXACTLY_ONCE]
    assert (one.error("transactions"), one.error("frauds"), one.doubled, one.lost) == (0, 0, 0, 0)
    assert one.processed_more > 0
