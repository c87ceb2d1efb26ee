"""Pages of kept runs: drawn from their packs, beside them. The repository does not hold them."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.harness.pack.archive import SUFFIX, name_of, unpack
from tests.harness.pack.files import MANIFEST
from tests.harness.report.listing import list_run, page_beside
from tests.harness.report.page import render
from tests.harness.run_directory import write_atomically


def draw_all(folder: Path) -> Iterator[Path]:
    """Draw the page of every kept run below a folder that has none, or an older one; yields the pages.

    Raises:
        PackError: a pack is damaged, or of other code.
    """
    for packed in sorted(folder.rglob(f"*{SUFFIX}")):
        page = page_beside(packed)
        if not page.exists() or page.stat().st_mtime < packed.stat().st_mtime:
            yield draw(packed)


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


def is_folder_of_kept(path: Path) -> bool:
    """Whether kept runs lie in a folder, or in folders of it; a run directory is none."""
    return path.is_dir() and not (path / MANIFEST).exists() and any(path.rglob(f"*{SUFFIX}"))
