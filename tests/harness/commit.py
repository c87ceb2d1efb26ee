"""The commit of a checkout, as a run's manifest names it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any


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


def _ask(checkout: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()
