"""The card ledger in pods: a plain call doubles under kills, the other two ways do not, and none loses one."""

from __future__ import annotations

import pytest

from tests.acceptance.jobs import Played
from tests.experiments.card_ledger.results import CardResults
from tests.experiments.card_ledger.ways import KEYED, PLAIN, RESTRUCTURED, WAYS
from tests.harness.results import Verdict


@pytest.fixture
def cards(played: Played) -> CardResults:
    results: CardResults = played("card_ledger")
    return results


def test_it_was_played_in_pods_and_all_of_it_was_shown(cards: CardResults) -> None:
    assert cards.on == "cluster"
    assert cards.verdict is Verdict.PASS, cards.reasons
    assert [one.way for one in cards.ways] == [way.name for way in WAYS]


@pytest.mark.parametrize("way", [way.name for way in WAYS])
def test_every_kill_ended_a_pod_in_a_running_epoch(cards: CardResults, way: str) -> None:
    faults = cards.way(way).faults
    assert sum(fault.hit for fault in faults) == cards.kills_planned
    assert all(
        len((fault.process_before or "").partition("@")[2]) >= 36 for fault in faults if fault.target == "executor"
    )


def test_a_plain_call_is_made_twice(cards: CardResults) -> None:
    plain = cards.way(PLAIN.name)
    assert plain.doubled_by_replay > 0
    assert (plain.missing, plain.phantom) == (0, 0)


@pytest.mark.parametrize("way", [KEYED.name, RESTRUCTURED.name])
def test_the_other_ways_charge_everything_once(cards: CardResults, way: str) -> None:
    one = cards.way(way)
    assert (one.doubled, one.balances_wrong, one.missing, one.phantom) == (0, 0, 0, 0)
    assert one.repeated_by_replay > 0
