"""Run directories to draw: the recorded one, copies of it to change, and its page read back."""

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.harness.report import render
from tests.unit.report.parsed_page import Element, parse

SMALL = Path(__file__).parent / "fixtures" / "small"
NAMES = ("20261120-170300-7", "20261121-090000-8")


@pytest.fixture
def recorded() -> Path:
    """Return the recorded run directory; not to be changed."""
    return SMALL


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a copy of the recorded run directory that a test may change."""
    return Path(shutil.copytree(SMALL, tmp_path / "small"))


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Return two runs of a campaign, below `runs`."""
    found = []
    for name in NAMES:
        run = Path(shutil.copytree(SMALL, tmp_path / "runs" / name))
        change(run, "manifest.json", run=name)
        found.append(run)
    return found


@pytest.fixture(scope="session")
def page() -> Element:
    """Return the page of the recorded run, parsed."""
    return parse(render(SMALL))


def change(run: Path, file: str, /, **changes: Any) -> None:
    path = run / file
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | changes))


def results_of(run: Path) -> dict[str, Any]:
    return dict(orjson.loads((run / "results.json").read_bytes()))
