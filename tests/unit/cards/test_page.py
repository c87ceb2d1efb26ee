"""The page of the card ledger shows the table of a run that is kept, and that run passed."""

from __future__ import annotations

from infra.toolchain.prepare import CHECKOUT
from tests.harness.cards.results import CardResults
from tests.harness.cards.show import markdown
from tests.harness.results import Verdict

PAGE = CHECKOUT / "docs" / "explanation" / "card-ledger.md"
KEPT = CHECKOUT / "docs" / "evidence" / "card-ledger"


def test_the_table_is_that_of_the_run_that_is_kept() -> None:
    results = CardResults.model_validate_json((KEPT / "results.json").read_bytes())
    assert results.verdict is Verdict.PASS
    table = (KEPT / "table.md").read_text()
    assert table == markdown(results) + "\n"
    assert table in PAGE.read_text()


def test_the_command_on_the_page_is_one_of_the_makefile() -> None:
    assert "make demo JOB=card_ledger SEED=7" in PAGE.read_text()
    assert "JOB=user_counts|card_ledger" in (CHECKOUT / "Makefile").read_text()
