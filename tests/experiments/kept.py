"""Pages of kept experiments: drawn from their results, beside them. The repository does not hold them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.experiments import kinds, run_folder
from tests.experiments.fraud import page as fraud_page
from tests.experiments.fraud.results import FraudResults
from tests.harness.run_directory import write_atomically


def draw_all(folder: Path) -> Iterator[Path]:
    """Draw the page of every experiment below a folder, and of fraud detection; yields the pages.

    Raises:
        RefusedError: a manifest names a kind that there is not.
        ValidationError: results are of other code.
    """
    for results in sorted(folder.rglob(run_folder.RESULTS)):
        run = results.parent
        if (run / run_folder.MANIFEST).exists() and (drawn := render(run)) is not None:
            write_atomically(run / run_folder.PAGE, drawn.encode())
            yield run / run_folder.PAGE


def render(run: Path) -> str | None:
    """Draw the page of a judged run from its manifest and results; None of a kind whose page shows records."""
    kind, results = kinds.kind_of(run), (run / run_folder.RESULTS).read_bytes()
    if kind == "fraud":
        return fraud_page.html(FraudResults.model_validate_json(results), run_folder.read_manifest(run)["command"])
    if kind not in kinds.EXPERIMENTS:
        return None
    one = kinds.experiment(kind)
    return one.html(one.results.model_validate_json(results))
