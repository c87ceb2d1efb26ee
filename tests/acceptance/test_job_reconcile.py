"""The lambda comparison in pods: exactly once lacks what it refused as late, at least once has copies and repeats."""

from __future__ import annotations

import pytest

from tests.acceptance.jobs import Played
from tests.experiments.page import IN_PODS
from tests.experiments.reconcile.figures import Figures
from tests.experiments.reconcile.page import Reconciliation
from tests.experiments.reconcile.plan import AT_LEAST_ONCE, EXACTLY_ONCE
from tests.harness.results import Verdict


@pytest.fixture
def reconciliation(played: Played) -> Reconciliation:
    results: Reconciliation = played("reconcile")
    return results


@pytest.fixture
def figures(reconciliation: Reconciliation) -> Figures:
    assert reconciliation.arms, reconciliation.unread
    return reconciliation.arms[0]


def test_it_was_played_in_pods_and_all_of_it_was_shown(reconciliation: Reconciliation) -> None:
    assert reconciliation.jvm == IN_PODS
    assert reconciliation.verdict is Verdict.PASS, [one.says for one in reconciliation.claims if not one.holds]


@pytest.mark.parametrize("stream", [EXACTLY_ONCE, AT_LEAST_ONCE])
def test_every_kill_hit_a_running_epoch(reconciliation: Reconciliation, figures: Figures, stream: str) -> None:
    assert reconciliation.plan.kills == 2
    assert figures.streams[stream].kills_hit == reconciliation.plan.kills
    assert figures.streams[stream].repeated > 0


def test_exactly_once_lacks_what_came_too_late_and_nothing_else(figures: Figures) -> None:
    whole = figures.streams[EXACTLY_ONCE].whole
    assert whole.late > 0
    assert (whole.difference, whole.over, whole.under, whole.wrong) == (-whole.late, 0, 0, 0)
    assert (figures.late_otherwise, figures.batch_wrong, figures.complaints) == (0, 0, [])
    assert [one.became for one in sorted(figures.attempts, key=lambda one: one.distance_ms)] == [
        "accepted",
        "late",
        "late",
    ]


def test_at_least_once_counts_records_again(figures: Figures) -> None:
    plain = figures.streams[AT_LEAST_ONCE]
    assert plain.added_again > 0
    assert plain.whole.under == 0
