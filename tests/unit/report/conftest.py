"""Run directories to draw: the recorded one, copies of it to change, and its page read back."""

import shutil
from pathlib import Path

import pytest

from tests.harness.report import render
from tests.unit.report.parsed_page import Element, parse

SMALL = Path(__file__).parent / "fixtures" / "small"


@pytest.fixture
def recorded() -> Path:
    """Return the recorded run directory; not to be changed."""
    return SMALL


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a copy of the recorded run directory that a test may change."""
    return Path(shutil.copytree(SMALL, tmp_path / "small"))


@pytest.fixture(scope="session")
def page() -> Element:
    """Return the page of the recorded run, parsed."""
    return parse(render(SMALL))
