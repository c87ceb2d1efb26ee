"""The page of fraud detection shows the tables of a run that is kept, and that run passed."""

from __future__ import annotations

from infra.toolchain.prepare import CHECKOUT
from tests.harness.fraud.page import markdown
from tests.harness.fraud.results import FraudResults
from tests.harness.results import Verdict

PAGE = CHECKOUT / "docs" / "explanation" / "fraud.md"
KEPT = CHECKOUT / "docs" / "evidence" / "fraud"


def test_the_tables_are_those_of_the_run_that_is_kept() -> None:
    results = FraudResults.model_validate_json((KEPT / "results.json").read_bytes())
    assert results.verdict is Verdict.PASS
    table = (KEPT / "table.md").read_text()
    assert table == markdown(results) + "\n"
    page = PAGE.read_text()
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    assert [row for row in rows if row not in page] == []


def test_the_command_on_the_page_is_one_of_the_makefile() -> None:
    assert "make demo JOB=fraud SEED=7" in PAGE.read_text()
    assert "JOB=user_counts|card_ledger|fraud" in (CHECKOUT / "Makefile").read_text()
