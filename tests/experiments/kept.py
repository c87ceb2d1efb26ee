"""Files of a run of several arms: its manifest, and which of them are worth keeping."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import orjson

from tests.experiments.figures import Model
from tests.harness.evidence import EvidenceError
from tests.harness.run_directory import RunDirectory

MANIFEST, RESULTS, TABLE, PAGE = "manifest.json", "results.json", "table.md", "page.html"


def keep(path: Path, to: Path) -> None:
    """Copy what is worth keeping of a judged run: all but the evidence itself, which the seed makes again."""
    to.mkdir(parents=True, exist_ok=True)
    always = {path / name for name in (MANIFEST, RESULTS, TABLE, PAGE)}
    for one in sorted(always.union(path.glob("*.svg"), path.glob("*.md"))):
        shutil.copy(one, to / one.name)


class Told(Model):
    """What results repeat of a run's manifest.

    Attributes:
        command: repeats it.
        jvm: where it was played: JVMs of this machine, or pods.
        machine: cores, memory, load and versions, when it began.

    """

    run: str
    command: str
    jvm: str
    machine: dict[str, Any]
    git: dict[str, Any]


Plan = TypeVar("Plan")
Judged = TypeVar("Judged", bound=Model)


def write(path: Path, results: Judged, page: Any, files: Mapping[str, str] | None = None) -> Judged:
    """Write the results of a run, its table and page, as a module's `markdown` and `html` draw them, and more files."""
    RunDirectory(path).write_json(path / RESULTS, results)
    for name, content in {TABLE: page.markdown(results) + "\n", PAGE: page.html(results), **(files or {})}.items():
        (path / name).write_text(content)
    return results


def told(manifest: dict[str, Any]) -> dict[str, Any]:
    """Take that part of a manifest."""
    return {name: manifest[name] for name in Told.model_fields}


def planned(path: Path, what: str, plan: Callable[[dict[str, Any]], Plan]) -> tuple[dict[str, Any], Plan]:
    """Read what a run was to play: its manifest, and the plan in it.

    Args:
        path: of the run.
        what: it should be, for the message.
        plan: reads the plan.

    Raises:
        EvidenceError: there is none that can be read.

    """
    try:
        manifest: dict[str, Any] = orjson.loads((path / MANIFEST).read_bytes())
        Told(**told(manifest))
        return manifest, plan(manifest["plan"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        todo = "name the folder of such a run below runs/"
        raise EvidenceError(f"this is no {what}: {error}", path / MANIFEST, todo) from error
