"""Both ways to effectively-once in pods: exact under kills, and dedup without its catalog is not."""

from __future__ import annotations

import pytest

from effectively_once_jobs.two_ways.settings import DEDUP, SNAPSHOTS
from tests.acceptance.jobs import Played
from tests.experiments.page import IN_PODS
from tests.experiments.two_ways.figures import Figures
from tests.experiments.two_ways.page import TwoWays
from tests.harness.results import Verdict

WAYS = (SNAPSHOTS, DEDUP)


@pytest.fixture
def ways(played: Played) -> TwoWays:
    results: TwoWays = played("two_ways")
    return results


@pytest.fixture
def arms(ways: TwoWays) -> dict[str, Figures]:
    return {one.way if one.catalog else "no catalog": one for one in ways.arms}


def test_both_were_played_in_pods_and_all_of_it_was_shown(ways: TwoWays) -> None:
    assert ways.jvm == IN_PODS
    assert ways.verdict is Verdict.PASS, [one.says for one in ways.claims if not one.holds]
    assert [one.name for one in ways.arms] == [arm.name for arm in ways.plan.arms]


@pytest.mark.parametrize("arm", [*WAYS, "no catalog"])
def test_every_kill_ended_the_pod_of_an_operator_at_work(arms: dict[str, Figures], arm: str) -> None:
    who = "exec" if arm == SNAPSHOTS else "driver"
    levels = arms[arm].levels
    assert sum(level.planned for level in levels) > 0
    for level in levels:
        assert (level.hit, len(level.struck)) == (level.planned, level.planned)
        assert all(f"-{who}" in pod and len(pod.partition("@")[2]) == 36 for pod in level.struck), level.struck


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_lost_wrong_or_written_otherwise(arms: dict[str, Figures], way: str) -> None:
    one = arms[way]
    assert one.due > 0
    assert (one.lost, one.wrong, one.differing, one.phantoms) == (0, 0, 0, 0)


def test_catalogs_dropped_what_was_delivered_again(arms: dict[str, Figures]) -> None:
    assert max(level.copies for level in arms[DEDUP].levels) > 0


def test_without_its_catalog_the_same_kill_makes_the_output_wrong(arms: dict[str, Figures]) -> None:
    assert arms["no catalog"].wrong > 0
