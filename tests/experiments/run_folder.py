"""The folder of a run: its manifest, which names the experiment, and which of its files are worth keeping."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from infra.toolchain.prepare import CHECKOUT
from tests.bench.facts import machine
from tests.harness.commit import git_state
from tests.harness.evidence import EvidenceError
from tests.harness.run_directory import RunDirectory, new_run, point_latest

MANIFEST, RESULTS, TABLE, PAGE = "manifest.json", "results.json", "table.md", "page.html"


def begin(runs: Path, kind: str, command: str, plan: Any, jvm: str) -> Path:
    """Make the folder of a new run, with what is to be played in it: `plan`, a dataclass with a seed."""
    path = new_run(runs, plan.seed)
    point_latest(path)
    write_manifest(path, kind, command, plan, jvm, machine=machine(), git=git_state(CHECKOUT))
    return path


def write_manifest(
    path: Path, kind: str, command: str, plan: Any, jvm: str, *, machine: Mapping[str, Any], git: Mapping[str, Any]
) -> None:
    """Write the manifest of a run."""
    told = {"kind": kind, "run": path.name, "command": command, "plan": asdict(plan), "jvm": jvm}
    RunDirectory(path).write_json(path / MANIFEST, {**told, "machine": machine, "git": git})


def broke_off(path: Path, error: BaseException) -> None:
    """Note in the manifest of a run that none of it came to its end."""
    manifest = orjson.loads((path / MANIFEST).read_bytes())
    told = f"{type(error).__name__}: {error}"
    RunDirectory(path).write_json(path / MANIFEST, {**manifest, "broke_off": told})


def read_manifest(path: Path) -> dict[str, Any]:
    """Read what is told of a run, and was to be played. Raises EvidenceError: there is nothing that can be read."""
    try:
        found = orjson.loads((path / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        todo = "name the folder of a run below runs/"
        raise EvidenceError(f"this is no run: {error}", path / MANIFEST, todo) from error
    if not isinstance(found, dict):
        raise EvidenceError("this is no manifest", path / MANIFEST, "take it from where the run was recorded")
    return found


def keep(path: Path, to: Path) -> None:
    """Copy what is worth keeping of a judged run: all but the evidence itself, which the seed makes again."""
    to.mkdir(parents=True, exist_ok=True)
    always = {path / name for name in (MANIFEST, RESULTS, TABLE, PAGE)}
    for one in sorted(always.union(path.glob("*.md"))):
        shutil.copy(one, to / one.name)
