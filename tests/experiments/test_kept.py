"""Pages of kept experiments: each is drawn from what the repository holds, and nothing else gets one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.experiments import kept, page
from tests.experiments.kinds import experiment, kind_of
from tests.experiments.run_folder import MANIFEST, PAGE, RESULTS, TABLE
from tests.harness.results import Verdict

EVIDENCE = CHECKOUT / "docs" / "evidence"
NAMES = sorted(
    str(manifest.parent.relative_to(EVIDENCE))
    for name in ("compare", "drill", "fraud", "optimisations", "reconcile", "two-ways")
    for manifest in (EVIDENCE / name).rglob(MANIFEST)
)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_kept_experiment_is_drawn_from_its_results(name: str, tmp_path: Path) -> None:
    for file in (MANIFEST, RESULTS):
        shutil.copy(EVIDENCE / name / file, tmp_path)

    assert [*kept.draw_all(tmp_path)] == [tmp_path / PAGE]
    drawn = (tmp_path / PAGE).read_text()
    assert drawn.lstrip().lower().startswith("<!doctype html>")
    assert len(drawn) > 10_000


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("fraud")])
def test_the_table_beside_it_is_that_of_its_results_and_it_passed(name: str) -> None:
    one = experiment(kind_of(EVIDENCE / name))
    results = one.results.model_validate_json((EVIDENCE / name / RESULTS).read_bytes())
    assert results.verdict is Verdict.PASS
    assert (EVIDENCE / name / TABLE).read_text() == page.markdown(one.page, results) + "\n"


def test_a_run_whose_page_shows_records_gets_none_from_its_results() -> None:
    assert kept.render(EVIDENCE / "card-ledger") is None
