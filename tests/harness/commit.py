"""The commit of a checkout, as a run's manifest names it."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
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


def describe_commit(checkout: Path) -> str:
    """State for a page of which commit it is."""
    found = git_state(checkout)
    if not found:
        return "outside of a repository"
    return f"at commit `{found['commit'][:12]}`" + (", with changes that no commit has" if found["dirty"] else "")


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
    """Digest of a package of the wheel as a commit has it, and as its drivers announce it (tests.harness.manifest).

    The library's own `package_digest` gives the same; who judges and packs has no code of the pipeline.
    """
    archive = ["git", "archive", "--format=tar", commit, "--", f"{SOURCE}{package}"]
    packed = subprocess.run(archive, cwd=checkout, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        content = {one.name: files.extractfile(one) for one in files if one.name.endswith(".py")}
        digest = hashlib.sha256()
        for name, file in sorted(content.items()):
            digest.update(f"{name.removeprefix(SOURCE)}\0".encode())
            digest.update(hashlib.sha256(file.read() if file else b"").digest())
    return digest.hexdigest()


def _ask(checkout: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()
