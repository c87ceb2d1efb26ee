"""Files of a run of several arms, and which of them are worth keeping."""

from __future__ import annotations

import shutil
from pathlib import Path

MANIFEST, RESULTS, TABLE, PAGE = "manifest.json", "results.json", "table.md", "page.html"


def keep(path: Path, to: Path) -> None:
    """Copy what is worth keeping of a judged run: all but the evidence itself, which the seed makes again."""
    to.mkdir(parents=True, exist_ok=True)
    always = {path / name for name in (MANIFEST, RESULTS, TABLE, PAGE)}
    for one in sorted(always.union(path.glob("*.svg"), path.glob("*.md"))):
        shutil.copy(one, to / one.name)
