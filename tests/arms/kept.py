"""Files of a run of several arms, and which of them are worth keeping."""

from __future__ import annotations

import shutil
from pathlib import Path

MANIFEST, RESULTS, TABLE, PAGE = "manifest.json", "results.json", "table.md", "page.html"


def keep(path: Path, to: Path) -> None:
    """Copy what is worth keeping of a judged run: all but the evidence itself, which the seed makes again."""
    to.mkdir(parents=True, exist_ok=True)
    for one in sorted([path / MANIFEST, path / RESULTS, path / TABLE, path / PAGE, *path.glob("*.svg")]):
        shutil.copy(one, to / one.name)
