"""Fusion and combiner lifting in pods: each moves less, and no answer depends on either."""

from __future__ import annotations

import pytest

from tests.acceptance.jobs import Played
from tests.bench.optimisations_table import AS_IS, COMBINER, FUSION
from tests.experiments.optimisations.claims import PODS
from tests.experiments.optimisations.figures import Figures
from tests.experiments.optimisations.page import Optimisations
from tests.experiments.optimisations.plan import ARMS
from tests.experiments.page import IN_PODS
from tests.harness.results import Verdict


@pytest.fixture
def optimisations(played: Played) -> Optimisations:
    results: Optimisations = played("optimisations")
    return results


@pytest.fixture
def arms(optimisations: Optimisations) -> dict[tuple[str, str], Figures]:
    return {(one.part, one.arm): one for one in optimisations.arms}


def test_all_variants_were_played_in_pods_and_all_of_it_was_shown(optimisations: Optimisations) -> None:
    assert optimisations.jvm == IN_PODS
    assert optimisations.verdict is Verdict.PASS, [one.says for one in optimisations.claims if not one.holds]
    assert [(one.part, one.arm) for one in optimisations.arms] == [(part, arm) for part in ARMS for arm in ARMS[part]]
    assert all(len(one.tasks) == PODS and one.elsewhere == 0 for one in optimisations.arms)


@pytest.mark.parametrize("part", ARMS)
def test_every_variant_answers_what_was_sent(arms: dict[tuple[str, str], Figures], part: str) -> None:
    mine = [arms[part, arm] for arm in ARMS[part]]
    assert all(one.windows > 0 and not one.wrong for one in mine)
    assert len({one.answer for one in mine}) == 1


@pytest.mark.parametrize("part", ARMS)
def test_without_fusion_there_are_more_stages_and_more_is_moved(
    arms: dict[tuple[str, str], Figures], part: str
) -> None:
    fused, off = arms[part, AS_IS], arms[part, FUSION]
    assert off.stages > fused.stages
    assert off.shuffled_bytes > 2 * fused.shuffled_bytes


@pytest.mark.parametrize("part", ARMS)
def test_without_the_combiner_more_records_are_moved_in_as_many_stages(
    arms: dict[tuple[str, str], Figures], part: str
) -> None:
    combined, off = arms[part, AS_IS], arms[part, COMBINER]
    assert off.stages == combined.stages
    assert off.shuffled_records > combined.shuffled_records
