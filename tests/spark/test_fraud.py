"""`make demo JOB=fraud` as a whole, small: roles on executors, each kind of kill, every transaction decided once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from infra.console import Console
from infra.toolchain.postgres import HOW, find_postgres
from tests.experiments.fraud.demo import FraudDemo, on_embedded
from tests.experiments.fraud.judge import TAKEN, judge
from tests.experiments.fraud.plan import AGGREGATOR, ANALYZERS, STORE, STORE_DOWN_S
from tests.experiments.fraud.results import FraudResults
from tests.harness.results import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
SEED, RECORDS, RATE = 5, 2_100, 50


def played(tmp_path: Path, records: int, rate: int, store_down_s: float = STORE_DOWN_S, **more: Any) -> FraudResults:
    if find_postgres() is None:
        pytest.skip(HOW)
    console = Console()
    stack = partial(on_embedded, console)
    results = FraudDemo(
        tmp_path,
        "embedded",
        stack,
        SEED,
        console,
        records,
        rate=rate,
        triggers=False,
        store_down_s=store_down_s,
        **more,
    ).run()
    assert results.verdict is Verdict.PASS, results.reasons
    assert results.counts == results.due
    return results


def test_every_transaction_is_decided_once_and_what_is_partial_says_so(tmp_path: Path) -> None:
    results = played(tmp_path, RECORDS, RATE)
    analyzer, aggregator, store = results.kills
    assert analyzer.target in ANALYZERS
    assert (aggregator.target, store.target) == (AGGREGATOR, STORE)
    assert analyzer.waited == 0 < analyzer.met
    assert analyzer.skipped is not None
    assert (analyzer.youngest_ms or results.deadline_ms) >= results.deadline_ms, "no score would have come in time"
    (run,) = (one for one in (tmp_path / "runs" / "fraud").iterdir() if not one.is_symlink())
    assert judge(run) == results, "from its files alone"


def test_a_store_that_is_away_for_two_minutes_gets_all_of_it_when_it_is_back(tmp_path: Path) -> None:
    results = played(tmp_path, 500, 5, 120.0, held_max=200)
    *_, store = results.kills
    assert store.away_s >= 120
    assert store.held is not None
    assert 200 <= store.held < 200 + TAKEN
    assert store.paused, "what is more stays in the topic"
    phase = results.phases[store.phase]
    assert phase.decided + phase.refused == phase.sent
    assert phase.late >= store.waited > 300
    assert results.answers["503, store down"] == 1
