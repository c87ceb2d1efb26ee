"""The page of the lambda comparison shows the tables of a run that is kept, and that run passed."""

from __future__ import annotations

from infra.toolchain.prepare import CHECKOUT
from tests.experiments.page import IN_PODS
from tests.experiments.reconcile.page import Reconciliation, tables
from tests.experiments.run_folder import RESULTS

SHOWN = CHECKOUT / "docs" / "explanation" / "reconcile.md"
KEPT = CHECKOUT / "docs" / "evidence" / "reconcile"


def test_the_tables_are_those_of_the_run_that_is_kept() -> None:
    results = Reconciliation.model_validate_json((KEPT / RESULTS).read_bytes())
    page = SHOWN.read_text()
    assert results.command in page
    for _, heading, rows in tables(results):
        for row in (heading, *rows):
            assert f"| {' | '.join(row)} |" in page


def test_what_the_page_says_of_the_cluster_is_of_the_run_that_is_kept() -> None:
    results = Reconciliation.model_validate_json((KEPT / "cluster" / RESULTS).read_bytes())
    assert results.jvm == IN_PODS
    page = SHOWN.read_text()
    part = page[page.index("## On a cluster") : page.index("## On a stream of yours")]
    assert results.command in part
    for _, heading, rows in tables(results):
        for row in (heading, rows[-1]):
            assert f"| {' | '.join(row)} |" in part
    for stream in results.arms[0].streams.values():
        assert f"{', '.join(f'{one:.1f}' for one in stream.recovered_s)} s after" in " ".join(part.split())


def test_the_command_on_the_page_is_one_of_the_makefile() -> None:
    assert "make reconcile SEED=7" in SHOWN.read_text()
    assert "\nreconcile: ##" in (CHECKOUT / "Makefile").read_text()
