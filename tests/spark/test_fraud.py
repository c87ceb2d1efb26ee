"""`make demo JOB=fraud` as a whole, small: roles on executors, each kind of kill, every transaction decided once."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.console import Console
from infra.embedded.class_archive import class_archive
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.postgres import HOW, find_postgres
from infra.toolchain.prepare import Toolchain
from tests.harness.fraud.demo import FraudDemo
from tests.harness.fraud.judge import judge
from tests.harness.fraud.plan import AGGREGATOR, ANALYZERS, STORE
from tests.harness.results import Verdict

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
SEED, RECORDS, RATE = 5, 2_100, 50


def test_every_transaction_is_decided_once_and_what_is_partial_says_so(tmp_path: Path, toolchain: Toolchain) -> None:
    if find_postgres() is None:
        pytest.skip(HOW)
    archive = class_archive(Cache(cache_root()), toolchain)
    results = FraudDemo(tmp_path, toolchain, SEED, Console(), archive, RECORDS, rate=RATE, triggers=False).run()
    assert results.verdict is Verdict.PASS, results.reasons
    assert results.counts == results.due
    analyzer, aggregator, store = results.kills
    assert analyzer.target in ANALYZERS
    assert (aggregator.target, store.target) == (AGGREGATOR, STORE)
    assert analyzer.waited == 0 < analyzer.met
    assert analyzer.skipped is not None
    assert (analyzer.youngest_ms or results.deadline_ms) >= results.deadline_ms, "no score would have come in time"
    (run,) = (one for one in (tmp_path / "runs" / "fraud").iterdir() if not one.is_symlink())
    assert judge(run) == results, "from its files alone"
