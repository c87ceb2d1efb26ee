"""Golden pages are kept without the style sheet that all of them share; a browser gets it back."""

from __future__ import annotations

from pathlib import Path

from tests.harness import report

STYLE = (Path(report.__file__).parent / "page.css").read_text(encoding="utf-8")
PLACE = "/* tests/harness/report/page.css */\n"


def folded(page: str) -> str:
    """Return a page with one line in the place of its style sheet."""
    return page.replace(STYLE, PLACE)


def unfold(golden: Path, into: Path) -> Path:
    """Write a golden page as it was drawn, for a browser; return where."""
    page = into / golden.name
    page.write_text(golden.read_text(encoding="utf-8").replace(PLACE, STYLE), encoding="utf-8")
    return page
