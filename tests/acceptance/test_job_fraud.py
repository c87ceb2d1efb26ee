"""Fraud detection in pods: every transaction is decided once, whichever pod of the job or of its store is killed."""

from __future__ import annotations

import pytest

from tests.acceptance.jobs import Played
from tests.experiments.fraud.plan import AGGREGATOR, ANALYZERS, KILLED, STORE
from tests.experiments.fraud.results import FraudResults, KillResult
from tests.harness.results import Verdict


@pytest.fixture
def fraud(played: Played) -> FraudResults:
    results: FraudResults = played("fraud")
    return results


def killed(fraud: FraudResults, *targets: str) -> KillResult:
    (one,) = (kill for kill in fraud.kills if kill.target in targets)
    return one


def test_it_was_played_in_pods_and_all_of_it_was_shown(fraud: FraudResults) -> None:
    assert fraud.on == "cluster"
    assert fraud.verdict is Verdict.PASS, fraud.reasons
    assert fraud.counts == fraud.due
    assert len(fraud.kills) == len(KILLED)


@pytest.mark.parametrize("targets", [ANALYZERS, (AGGREGATOR,), (STORE,)])
def test_every_kill_ended_a_pod_or_its_container_and_another_came(
    fraud: FraudResults, targets: tuple[str, ...]
) -> None:
    one = killed(fraud, *targets)
    assert one.hit
    assert one.process_after is not None
    assert one.process_after != one.process_before
    assert all(len(who.partition("@")[2]) >= 36 for who in (one.process_before, one.process_after))


def test_without_an_analyzer_decisions_go_on_and_say_so(fraud: FraudResults) -> None:
    one = killed(fraud, *ANALYZERS)
    assert one.waited == 0
    assert fraud.phases[one.phase].missing[one.target] >= one.met > 0


@pytest.mark.parametrize("target", [AGGREGATOR, STORE])
def test_without_aggregator_or_store_they_are_stored_late(fraud: FraudResults, target: str) -> None:
    one = killed(fraud, target)
    assert fraud.phases[one.phase].late >= one.waited > 0


def test_the_presenter_answers_and_says_when_it_cannot(fraud: FraudResults) -> None:
    assert fraud.answers["200, store up"] > 0
    assert fraud.answers["404, store up"] >= 1
    assert fraud.answers["400, store up"] == 1
    # A store that was back within the time of a question is told of as `back`.
    assert (
        fraud.answers.get("503, store down", 0)
        + sum(times for answer, times in fraud.answers.items() if answer.endswith("store back"))
        == 1
    )
