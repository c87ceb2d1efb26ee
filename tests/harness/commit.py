"""The commit of a checkout, as a run's manifest names it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

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
    names = _ask(checkout, "ls-tree", "-r", "--name-only", commit, "--", f"{SOURCE}{package}").splitlines()
    digest = hashlib.sha256()
    for name in sorted(one for one in names if one.endswith(".py")):
        show = ["git", "show", f"{commit}:{name}"]
        content = subprocess.run(show, cwd=checkout, capture_output=True, check=True).stdout
        digest.update(f"{name.removeprefix(SOURCE)}\0".encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()


def _ask(checkout: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()
