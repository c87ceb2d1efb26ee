"""The pages as a browser lays them out: nothing sticks out, no label lies on another, nothing is fetched.

Needs a Chromium (Debian: chromium) on PATH, or named by CHROMIUM; skipped where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.experiments import kept
from tests.unit.report.chromium import OVERRIDE, Browser, Tab, browser, program
from tests.unit.report.golden_page import unfold

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.html"))
KEPT = Path(__file__).parents[3] / "docs" / "evidence"
EXPERIMENTS = [KEPT / name for name in ("compare", "two-ways", "reconcile", "optimisations/cluster", "drill/cluster")]
PAGES = [*GOLDEN, *EXPERIMENTS]
PHONE, PAPER, TABLET, WINDOW, DESKTOP = 390, 688, 800, 940, 1280
"""Widths in CSS pixels; PAPER is A4 without its margins."""
LOOKS = [
    (PHONE, False, "screen"),
    (PHONE, True, "screen"),
    (DESKTOP, False, "screen"),
    (DESKTOP, True, "screen"),
    (TABLET, False, "screen"),
    (WINDOW, False, "screen"),
    (PAPER, False, "print"),
    (PAPER, True, "print"),
]
STICKS_OUT = """[...document.querySelectorAll('*')]
  .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .filter(one => !one.parentElement?.closest('.scroll'))
  .map(one => `${one.tagName} ${one.className}: ${one.textContent.trim().slice(0, 40)}`).slice(0, 5)"""
OVERLAP = """(() => {
  const found = [], boxes = [...document.querySelectorAll('svg text')]
    .map(one => [one.textContent, one.getBoundingClientRect()]).filter(([_, box]) => box.width > 0);
  boxes.forEach(([name, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 3) found.push(`${name} and ${other}`);
  }));
  return found.slice(0, 5);
})()"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return a running browser."""
    path = program()
    if path is None:
        pytest.skip(f"there is no Chromium: install it (Debian: chromium), or name it in {OVERRIDE}")
    with browser(path, tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Tab]:
    """Return an empty page."""
    one = chromium.tab()
    yield one
    one.ask("Page.close")


@pytest.fixture
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the page of a kept experiment, or a golden one with its style sheet."""
    of: Path = request.param
    if of in GOLDEN:
        return unfold(of, tmp_path)
    page = tmp_path / "page.html"
    page.write_text(kept.render(of) or "")
    return page


@pytest.mark.parametrize(("width", "dark", "medium"), LOOKS)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}", indirect=True)
@pytest.mark.thinned(4)
def test_a_page_fits_and_keeps_to_itself(tab: Tab, page: Path, width: int, dark: bool, medium: str) -> None:
    tab.open(page, width, dark=dark, medium=medium)
    assert tab.evaluate(STICKS_OUT) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(OVERLAP) == []
    assert tab.messages == []
    assert tab.requests == [page.as_uri()]


@pytest.mark.parametrize("page", [page for page in GOLDEN if page.stem == "small"], indirect=True)
def test_dark_is_dark(tab: Tab, page: Path) -> None:
    grounds = []
    for dark in (False, True):
        tab.open(page, DESKTOP, dark=dark)
        grounds.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(253, 253, 251)", "rgb(20, 22, 25)"]


def test_what_is_asked_of_the_pages_is_missed_by_a_bad_one(tab: Tab, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><meta name=viewport content='width=device-width'><title>bad</title>"
        "<div style='width:900px'>wide</div><img src='picture.png'><script>console.error('bad')</script>"
        "<svg><text x='9' y='20'>one</text><text x='12' y='22'>two</text></svg>"
    )
    tab.open(bad, PHONE)
    assert tab.evaluate(STICKS_OUT) == ["DIV : wide"]
    assert tab.evaluate("document.documentElement.scrollWidth") > 900
    assert tab.evaluate(OVERLAP) == ["one and two"]
    assert any("bad" in message for message in tab.messages)
    assert tab.requests == [bad.as_uri(), (tmp_path / "picture.png").as_uri()]
