"""The page of the card ledger shows the table of a run that is kept, and that run passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.experiments.card_ledger.results import CardResults
from tests.experiments.card_ledger.show import markdown
from tests.harness.results import Verdict
from tests.unit.tables import rows

PAGE = CHECKOUT / "docs" / "explanation" / "card-ledger.md"
KEPT = CHECKOUT / "docs" / "evidence" / "card-ledger"


@pytest.mark.parametrize(("on", "kept"), [("embedded", KEPT), ("cluster", KEPT / "cluster")])
def test_the_tables_are_those_of_the_runs_that_are_kept(on: str, kept: Path) -> None:
    results = CardResults.model_validate_json((kept / "results.json").read_bytes())
    assert (results.verdict, results.on) == (Verdict.PASS, on)
    table = (kept / "table.md").read_text()
    assert table == markdown(results) + "\n"
    assert {*rows(table)} <= {*rows(PAGE.read_text())}


def test_the_command_on_the_page_is_one_of_the_makefile() -> None:
    assert "make demo JOB=card_ledger SEED=7" in PAGE.read_text()
    assert "JOB=user_counts|card_ledger" in (CHECKOUT / "Makefile").read_text()
