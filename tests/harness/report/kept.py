"""Pages of kept runs and of their sums: drawn from packs and results, beside them. The repository holds none."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.harness.pack.archive import SUFFIX, name_of, unpack
from tests.harness.pack.files import MANIFEST, RESULTS
from tests.harness.report import campaign
from tests.harness.report.listing import list_run, page_beside
from tests.harness.report.packing import PAGE
from tests.harness.report.page import render
from tests.harness.results import CampaignResults
from tests.harness.run_directory import write_atomically


def draw_all(folder: Path) -> Iterator[Path]:
    """Draw the page of every kept run below a folder that has none, or an older one, and of sums; yields the pages.

    Raises:
        PackError: a pack is damaged, or of other code.
        ValidationError: a sum is of other code.
    """
    there = sorted(folder.rglob(f"*{SUFFIX}"))
    for packed in there:
        page = page_beside(packed)
        if not page.exists() or page.stat().st_mtime < packed.stat().st_mtime:
            yield draw(packed)
    for beside in sorted({packed.parent for packed in there}):
        if (beside / RESULTS).is_file():
            yield draw_sum(beside)


def draw(packed: Path) -> Path:
    """Draw the page of a kept run; returns where it lies. Raises PackError."""
    # Only what is wrong is followed to the records: a run that passed needs none of them.
    lines_too = list_run(packed).verdict != "pass"
    with TemporaryDirectory(prefix="effectively-once-page-") as temporary:
        run = Path(temporary) / name_of(packed)
        run.mkdir()
        unpack(packed, run, lines_too=lines_too)
        write_atomically(page_beside(packed), render(run).encode())
    return page_beside(packed)


def draw_sum(folder: Path) -> Path:
    """Draw the page of a sum from the `results.json` beside its runs; returns where it lies. Raises ValidationError."""
    results = CampaignResults.model_validate_json((folder / RESULTS).read_bytes())
    # A sum names its runs from where it was made, and they lie beside it.
    parts = tuple(part.model_copy(update={"run": str(folder / Path(part.run).name)}) for part in results.parts)
    page = folder / PAGE
    write_atomically(page, campaign.render(results.model_copy(update={"parts": parts}), folder).encode())
    return page


def is_folder_of_kept(path: Path) -> bool:
    """Whether kept runs lie in a folder, or in folders of it; a run directory is none."""
    return path.is_dir() and not (path / MANIFEST).exists() and any(path.rglob(f"*{SUFFIX}"))
