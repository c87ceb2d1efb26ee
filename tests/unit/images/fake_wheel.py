"""Wheels as tests need them: right in all that is not said otherwise."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

NAME = "clicks-0.1.0-py3-none-any.whl"


def wheel(folder: Path, name: str = NAME, about: Sequence[str] = (), files: Mapping[str, str] | None = None) -> Path:
    """Write a wheel; `about` are further lines of its metadata, `files` its content."""
    path = folder / name
    info = f"{'-'.join(name.split('-')[:2])}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in ({"clicks/__init__.py": "x = 1\n"} if files is None else files).items():
            archive.writestr(file, text)
        lines = ["Metadata-Version: 2.4", "Name: clicks", "Version: 0.1.0", *about, ""]
        archive.writestr(f"{info}/METADATA", "\n".join(lines))
    return path
