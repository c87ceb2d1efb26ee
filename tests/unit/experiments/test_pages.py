"""The page of an experiment shows the tables of runs that are kept, and those runs passed."""

from __future__ import annotations

from typing import Any

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.experiments.card_ledger import show
from tests.experiments.card_ledger.results import CardResults
from tests.experiments.fraud import page
from tests.experiments.fraud.results import FraudResults
from tests.harness.results import Verdict
from tests.unit.tables import rows

DOCS = CHECKOUT / "docs"
CARDS, FRAUD = (CardResults, show.markdown), (FraudResults, page.markdown)
HISTOGRAM = "Histogram, decisions by ms"


@pytest.mark.parametrize(
    ("name", "kept", "on", "form"),
    [
        ("card-ledger", "", "embedded", CARDS),
        ("card-ledger", "cluster", "cluster", CARDS),
        ("fraud", "", "embedded", FRAUD),
        ("fraud", "cluster", "cluster", FRAUD),
        ("fraud", "store-away", "embedded", FRAUD),
    ],
)
def test_the_tables_are_those_of_the_runs_that_are_kept(name: str, kept: str, on: str, form: Any) -> None:
    results_of, markdown = form
    folder = DOCS / "evidence" / name / kept
    results = results_of.model_validate_json((folder / "results.json").read_bytes())
    assert (results.verdict, results.on) == (Verdict.PASS, on)
    table = (folder / "table.md").read_text()
    assert table == markdown(results) + "\n"
    shown = rows((DOCS / "explanation" / f"{name}.md").read_text())
    if form == CARDS or not kept:
        assert [row for row in rows(table) if row not in shown] == []
        return
    # Of further runs the page shows some of the tables, each as it is.
    tables = [rows(part) for part in table.partition(HISTOGRAM)[0].split("\n\n") if part.startswith("| ")]
    assert sum(set(part) <= {*shown} for part in tables) >= 2


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("card-ledger", "make demo JOB=card_ledger SEED=7"),
        ("fraud", "make demo JOB=fraud SEED=7"),
        ("fraud", "make acceptance SUITE=jobs JOB=fraud SEED=7"),
    ],
)
def test_the_commands_on_the_page_are_some_of_the_makefile(name: str, command: str) -> None:
    assert command in (DOCS / "explanation" / f"{name}.md").read_text()
    assert "JOB=user_counts|card_ledger|fraud" in (CHECKOUT / "Makefile").read_text()
