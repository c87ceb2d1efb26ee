"""Figures: percentiles by nearest rank, a histogram that loses nothing, and an arm of Spark's that was refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.fraud.figures import arm, kill, latency
from tests.experiments.fraud.page import markdown
from tests.experiments.fraud.results import EDGES_MS, FraudResults
from tests.harness.results import Verdict


def away(restarted_at: int, **changes: object) -> dict[str, object]:
    """A kill of the store, which was away until then."""
    processes = {"process_before": "1@1", "process_after": "2@2"}
    return {"target": "store", "injected_at": 10_000, "restarted_at": restarted_at, **processes, **changes}


def waited(arrived_ms: int, committed_ms: int) -> list[dict[str, object]]:
    return [{"arrived_ms": arrived_ms, "committed_ms": committed_ms, "missing": []}]


def test_percentiles_are_values_that_were_measured() -> None:
    found = latency([float(n) for n in range(1, 1_001)], 20)
    assert found is not None
    assert (found.p50, found.p99, found.p99_9, found.most, found.in_time) == (500, 990, 999, 1_000, 0.02)
    assert latency([], 20) is None


@given(st.lists(st.floats(0, 10**5), min_size=1, max_size=50))
def test_every_decision_is_in_one_bar(took_ms: list[float]) -> None:
    found = latency(took_ms, 20)
    assert found is not None
    assert sum(found.bars) == len(took_ms)
    below = -1.0
    for edge, bar in zip((*EDGES_MS, float("inf")), found.bars, strict=True):
        assert bar == sum(below < one <= edge for one in took_ms)
        below = edge


def test_an_arm_is_measured_without_its_first_decisions_and_a_refused_one_says_why() -> None:
    rows = [{"arrived_ms": n, "decided_ms": n + (900 if n < 30 else 9)} for n in range(100)]
    held, refused = arm("a", rows, {"load": 1.5}, 20), arm("b", [], {"says": "not allowed", "load": 0.5}, 20)
    assert held.latency is not None
    assert (held.latency.decisions, held.latency.most, held.load) == (70, 9, 1.5)
    assert refused.latency is None
    about = {"claim": "", "verdict": Verdict.PASS, "seed": 1, "deadline_ms": 14, "target_ms": 20}
    told = markdown(FraudResults.model_validate({**about, "arms": (held, refused)}))
    assert "| a | 70 | 9.0 | 9.0 | 9.0 | 9.0 | 1.5 |" in told
    assert "| b | not allowed |  |  |  |  | 0.5 |" in told


def test_a_store_that_nobody_missed_was_not_hit() -> None:
    at_once, held, short = waited(10_100, 10_106), waited(10_100, 13_050), waited(12_900, 13_050)
    assert [kill(away(13_000), 0, rows).hit for rows in (at_once, held, short)] == [False, True, False]
    assert not kill(away(13_000, process_after=None), 0, held).hit


def test_a_store_that_was_away_for_a_moment_is_seen_by_what_waited_for_half_of_it() -> None:
    seen = kill(away(10_600), 0, waited(10_100, 10_700))
    assert (seen.hit, seen.away_s) == (True, 0.7)
    assert not kill(away(10_600), 0, waited(10_500, 10_700)).hit
    assert not kill(away(10_600), 0, waited(10_100, 10_590)).hit


def test_what_was_held_is_told_of_the_absence_alone() -> None:
    fault = away(70_000)
    told = [
        {"event": "role", "t": t, "state": "counts", "held": held}
        for t, held in ((9_000, 900), (20_000, 40), (69_500, 77), (70_100, 800))
    ]
    found = kill(fault, 0, [], told)
    assert (found.held, found.paused) == (77, False)
    paused = [*told, {"event": "role", "t": 30_000, "state": "paused", "held": 500}]
    assert (kill(fault, 0, [], paused).held, kill(fault, 0, [], paused).paused) == (500, True)
    assert kill({**fault, "target": "aggregator", "replaced_at": 70_000}, 0, [], paused).held is None
