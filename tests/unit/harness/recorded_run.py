"""Runs that were recorded on real servers (recorded/README.md)."""

from __future__ import annotations

import tarfile
from pathlib import Path

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.tar.xz"))


def unpacked(archive: Path, folder: Path) -> Path:
    """Return the run directory of an archive, unpacked into a folder that is empty."""
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    return next(folder.iterdir())
