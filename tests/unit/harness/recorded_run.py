"""Runs that were recorded on real servers (recorded/README.md)."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.unit.harness.tamper import bind
from tests.unit.harness.witnessed import witness

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.tar.xz"))


def unpacked(archive: Path, folder: Path) -> Path:
    """Return the run directory of an archive, unpacked into a folder that is empty.

    It was recorded before its processes had a second witness and its files were bound; what a witness would have noted
    is made up.
    """
    return bind(witness(as_recorded(archive, folder)))


def as_recorded(archive: Path, folder: Path) -> Path:
    """Return the run directory of an archive as it was recorded, unpacked into a folder that is empty."""
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    return next(folder.iterdir())
