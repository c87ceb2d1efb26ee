"""The page of fraud detection shows the tables of runs that are kept, and those runs passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.experiments.fraud.page import markdown
from tests.experiments.fraud.results import FraudResults
from tests.harness.results import Verdict
from tests.unit.tables import rows

PAGE = CHECKOUT / "docs" / "explanation" / "fraud.md"
KEPT = CHECKOUT / "docs" / "evidence" / "fraud"
HISTOGRAM = "Histogram, decisions by ms"


@pytest.mark.parametrize(
    ("on", "kept"), [("embedded", KEPT), ("cluster", KEPT / "cluster"), ("embedded", KEPT / "store-away")]
)
def test_the_tables_are_those_of_the_runs_that_are_kept(on: str, kept: Path) -> None:
    results = FraudResults.model_validate_json((kept / "results.json").read_bytes())
    assert (results.verdict, results.on) == (Verdict.PASS, on)
    table = (kept / "table.md").read_text()
    assert table == markdown(results) + "\n"
    page = rows(PAGE.read_text())
    if kept == KEPT:
        assert [row for row in rows(table) if row not in page] == []
        return
    # Of further runs the page shows some of the tables, each as it is.
    shown = [rows(part) for part in table.partition(HISTOGRAM)[0].split("\n\n") if part.startswith("| ")]
    assert sum(set(part) <= {*page} for part in shown) >= 2


def test_the_commands_on_the_page_are_some_of_the_makefile() -> None:
    assert "make demo JOB=fraud SEED=7" in PAGE.read_text()
    assert "make acceptance SUITE=jobs JOB=fraud SEED=7" in PAGE.read_text()
    assert "JOB=user_counts|card_ledger|fraud" in (CHECKOUT / "Makefile").read_text()
