"""The commit of a checkout, as a run's manifest names it."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from effectively_once.version import package_digest

PRODUCT = ("effectively_once", "effectively_once_jobs")
"""Packages of the wheel."""
SOURCE = "pipelines/src/"


def git_state(checkout: Path) -> dict[str, Any]:
    """Commit and whether there are changes; empty outside a repository."""
    try:
        return {"commit": _ask(checkout, "rev-parse", "HEAD"), "dirty": bool(_ask(checkout, "status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {}


def in_history(checkout: Path, commit: str) -> bool | None:
    """Whether a commit is HEAD or before it; None outside a repository."""
    try:
        _ask(checkout, "rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return None
    try:
        _ask(checkout, "merge-base", "--is-ancestor", commit, "HEAD")
    except subprocess.CalledProcessError:
        return False
    return True


def code_at(checkout: Path, commit: str, package: str) -> str:
    """Digest of a package of the wheel as a commit has it, and as its drivers announce it (tests.harness.manifest)."""
    archive = ["git", "archive", "--format=tar", commit, "--", f"{SOURCE}{package}"]
    packed = subprocess.run(archive, cwd=checkout, capture_output=True, check=True).stdout
    with TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(folder, filter="data")
        return package_digest(Path(folder) / SOURCE / package)


def _ask(checkout: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()
