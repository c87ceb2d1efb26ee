"""Executables that stand in for real ones: shell scripts in a folder for PATH."""

from __future__ import annotations

from pathlib import Path


def program(folder: Path, name: str, script: str) -> Path:
    """Write an executable `name` whose body is `script`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
