"""Runs that were recorded on real servers (recorded/README.md)."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.tar.xz"))
FABRICATED = "fabricated"
_NAMES = [path.name for path in RECORDED]
RUNS = [FABRICATED, *(pytest.param(name, marks=pytest.mark.deep) for name in _NAMES)]
"""Runs to tamper with, of the fixture `clean`; what is judged of a recorded one takes five times as long."""
on_each_run = pytest.mark.parametrize("clean", [FABRICATED, *_NAMES], indirect=True)
"""For a test that `make test` plays on recorded runs too."""


def unpacked(archive: Path, folder: Path) -> Path:
    """Return the run directory of an archive, unpacked into a folder that is empty."""
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    return next(folder.iterdir())
