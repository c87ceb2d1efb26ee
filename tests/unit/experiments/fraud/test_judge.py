"""The judge of fraud detection: a run that shows what it claims passes, and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.fraud import page
from tests.experiments.fraud.answers import BACK
from tests.experiments.fraud.judge import ASKED, DECISIONS, REFUSALS, TAKEN, judge
from tests.experiments.fraud.plan import ANALYZERS, HELD_MAX, KILLED, STORE, STORE_DEAD, phases
from tests.experiments.fraud.results import FraudResults
from tests.experiments.fraud.workload import BAD, records
from tests.harness.evidence import EvidenceError
from tests.harness.results import Verdict
from tests.unit.experiments.fraud import runs
from tests.unit.experiments.fraud.runs import Row, alter, events

Change = Callable[[Path], object]
VICTIM = next(one.kill.target for one in runs.PHASES if one.kill and one.kill.target in ANALYZERS)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return runs.recorded(tmp_path)


def rows(name: str, change: Callable[[list[Row]], object]) -> Change:
    return lambda run: alter(run, name, change)


def of(change: dict[str, Any], at: int = 3) -> Callable[[list[Row]], object]:
    return lambda found: found[at].update(change)


def decide_late(found: list[Row]) -> None:
    """What an analyzer had not answered was not decided without it."""
    for one in found:
        if one["missing"] == [VICTIM]:
            one["committed_ms"] = one["arrived_ms"] + 10_000


def tell_held(run: Path, number: int) -> None:
    """Have the aggregator tell during the store's absence how many it holds."""

    def change(found: list[Row]) -> None:
        fall = next(one for one in found if one["event"] == "fault" and one["target"] == STORE)
        told = {"event": "role", "role": "aggregator", "state": "counts", "t": fall["t"] + 1, "held": number}
        found.insert(found.index(fall), {**fall, **told})

    events(run, change)


def test_a_store_that_is_back_at_once_may_be_told_of_either_way_and_what_is_held_is_bounded(run: Path) -> None:
    tell_held(run, HELD_MAX + TAKEN - 1)
    alter(run, ASKED, of({"store": BACK}, 0))
    results = judge(run)
    assert results.verdict is Verdict.PASS, results.reasons
    assert results.answers == {"200, store up": 1, "400, store up": 1, "404, store up": 1, "503, store back": 1}
    assert [one.held for one in results.kills] == [None, None, HELD_MAX + TAKEN - 1]
    first = next(row for row in runs.rows_of(run, DECISIONS) if row["id"] == "t0000000")
    alter(run, ASKED, of({"status": 200, "document": {"outcome": first["outcome"]}}, 0))
    assert judge(run).verdict is Verdict.PASS


def test_a_run_that_shows_it_passes(run: Path) -> None:
    results = judge(run)
    assert (results.verdict, results.reasons) == (Verdict.PASS, ())
    assert results.counts == results.due
    assert set(results.counts) == {"decided", *BAD}
    assert sum(results.counts.values()) == sum(one.records for one in runs.PHASES)
    assert [one.partial > 0 for one in results.phases] == [False, False, False, True, True, False]
    assert [one.late > 0 for one in results.phases] == [False, False, False, False, True, True]
    assert all(one.hit and 2.0 <= one.away_s < 2.1 and one.met for one in results.kills)
    quiet = results.phases[1].latency
    assert quiet is not None
    assert (quiet.p50, quiet.p99, quiet.most, quiet.in_time, sum(quiet.bars)) == (6.2, 6.2, 6.2, 1.0, quiet.decisions)
    assert FraudResults.model_validate_json((run / "results.json").read_bytes()) == results
    assert judge(run) == results


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (rows(DECISIONS, lambda found: found.pop(3)), "1 records came to nothing"),
        (rows(REFUSALS, lambda found: found.pop()), "1 records came to nothing"),
        (rows(DECISIONS, lambda found: found.append(found[3])), "1 transactions have more than one decision"),
        (rows(DECISIONS, lambda found: found.append({**found[3], "id": "x"})), "1 records came to more than one thing"),
        (rows(DECISIONS, lambda found: found.append({**found[3], "id": "x", "offset": 10**6})), "nobody sent"),
        (rows(DECISIONS, of({"id": "t1"})), "1 records are decided under another id"),
        (rows(DECISIONS, of({"arrived_ms": 5})), "1 records are decided under another id or time"),
        (rows(DECISIONS, lambda found: found[3]["points"].pop("count")), "1 records are not marked"),
        (rows(DECISIONS, of({"partial": True})), "1 records are not marked"),
        (rows(DECISIONS, of({"missing": ["count"]})), "1 records are not marked"),
        (rows(DECISIONS, lambda found: found[3]["points"].update(count=99)), "1 records have other points"),
        (rows(DECISIONS, of({"outcome": "waved through"})), "1 records are decided otherwise"),
        (rows(REFUSALS, of({"reason": "not_nice"})), "1 records were not refused as"),
        (rows(ASKED, of({"status": 200, "document": {"outcome": "x"}}, 1)), "the presenter answered x about"),
        (rows(ASKED, of({"status": 404}, 1)), "the presenter answered 404 and not 200"),
        (rows(ASKED, of({"status": 200}, 0)), "the presenter answered 200 and not 503"),
        (rows(ASKED, of({"status": 200}, 3)), "the presenter answered 200 and not 400"),
        (rows(ASKED, of({"status": 404, "store": BACK}, 0)), "the presenter answered 404 and not 200"),
        (lambda run: tell_held(run, HELD_MAX + TAKEN), "20501 records were held while the store was away"),
        (rows(DECISIONS, decide_late), f"decisions waited for the analyzer {VICTIM}"),
    ],
)
@pytest.mark.thinned(3)
def test_what_refutes_it_is_told(run: Path, change: Change, reason: str) -> None:
    change(run)
    results = judge(run)
    assert results.verdict is Verdict.FAIL
    assert any(re.search(reason, one) for one in results.reasons), results.reasons


def fault_of(found: list[Row]) -> Row:
    return next(one for one in found if one["event"] == "fault")


def cut(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def faults(change: Callable[[Row], object], target: str) -> Change:
    return lambda run: events(
        run, lambda found: [change(one) for one in found if one["event"] == "fault" and one["target"] == target]
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (faults(lambda one: one.update(process_after=one["process_before"]), VICTIM), f"the kill of {VICTIM} cannot"),
        (faults(lambda one: one.update(process_after=None), STORE), "the kill of store cannot"),
        (faults(lambda one: one.update(injected_at=5, restarted_at=6), STORE), "the kill of store cannot"),
        (faults(lambda one: one.update(injected_at=5, replaced_at=6), VICTIM), f"the kill of {VICTIM} cannot"),
        (lambda run: events(run, lambda found: found.remove(fault_of(found))), "2 of 3 kills hit"),
        (lambda run: (run / "sent.jsonl").write_bytes((run / "sent.jsonl").read_bytes()[:-20]), "truncated|not JSON"),
        (rows("sent", lambda found: found.pop()), "of 900|records were acknowledged"),
        (lambda run: (run / "observed" / "decisions.jsonl").unlink(), "cannot be read"),
        (lambda run: cut(run / "history.jsonl"), "does not come to its end"),
        (rows(ASKED, lambda found: found.pop(1)), "was not asked for any decision"),
    ],
)
def test_what_is_not_shown_is_unknown(run: Path, change: Change, reason: str) -> None:
    change(run)
    results = judge(run)
    assert results.verdict is Verdict.UNKNOWN, results.reasons
    assert any(re.search(reason, one) for one in results.reasons), results.reasons


def test_without_a_manifest_there_is_nothing_to_judge(run: Path) -> None:
    (run / "manifest.json").write_text("{}")
    with pytest.raises(EvidenceError, match="no manifest"):
        judge(run)


def test_the_page_shows_every_phase_and_needs_no_other_file(run: Path) -> None:
    results = judge(run)
    whole = (run / "page.html").read_text()
    assert all(one.name in whole for one in runs.PHASES)
    assert whole.count("<svg") == len(runs.PHASES)
    assert "src=" not in whole
    assert (run / "table.md").read_text() == page.markdown(results) + "\n"


def test_plan_and_records_are_functions_of_the_seed() -> None:
    assert phases(7, 2_100, 50, 3) == phases(7, 2_100, 50, 3) != phases(8, 2_100, 50, 3)
    assert {phases(seed, 2_100, 50, 1)[3].kill.target for seed in range(30)} == set(ANALYZERS)  # type: ignore[union-attr]
    assert [one.name for one in phases(1, 2_100, 50, 4)][3:] == [*KILLED, KILLED[0]]
    assert phases(1, 2_100, 50, 3)[-1].name == STORE_DEAD
    longer = phases(1, 2_100, 50, 3, store_down_s=120)
    assert longer[:-1] == phases(1, 2_100, 50, 3)[:-1]
    assert longer[-1].kill is not None
    assert (longer[-1].records - longer[-1].kill.after) / longer[-1].rate >= 120
    due_ms = [float(n) for n in range(200)]
    assert list(records(7, 1_000, due_ms)) == list(records(7, 1_000, due_ms)) != list(records(8, 1_000, due_ms))
