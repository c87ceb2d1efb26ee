"""Binds the evidence of a run together: digests of all its files, the end of its history, and those of its controls.

Whoever takes a file from another run, leaves one out or puts one in has to bind anew, and the root is another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from tests.harness.history import end_of_links, link_in
from tests.harness.run_directory import RunDirectory, write_atomically

NAME, FORMAT = "bound.json", 1
MADE_OF_IT = ("results.json", "junit.xml", "report.html", "changes.md", NAME)
"""Files that are made of the evidence, and are none."""
BESIDE = ("logs", "work", "controls")
"""Folders that no verdict rests on, or that are bound by themselves."""
UNBOUND = "recorded before evidence was bound"


def bind(run: Path) -> str:
    """Bind a run and all that is below its `controls/`, and write `bound.json` into each; the root.

    Raises:
        OSError: a file cannot be read or written.
    """
    directory = RunDirectory(run)
    for one in _controls(run):
        bind(one)
    document = _read_bound(directory)
    write_atomically(run / NAME, orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return str(document["root"])


def root_of(run: Path) -> str | None:
    """Return the root that a run says it has; None where it was never bound."""
    try:
        found = orjson.loads((run / NAME).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return str(found.get("root")) if isinstance(found, dict) else None


def complaints(run: Path) -> list[str]:
    """Describe what is not as it was bound, in a run and in its controls.

    Raises:
        EvidenceError: a history is no chain to its end.
        OSError: a file cannot be read.
    """
    path = run / NAME
    try:
        told = orjson.loads(path.read_bytes())
    except OSError:
        return [f"{UNBOUND}: {path} is missing"]
    except orjson.JSONDecodeError as error:
        return [f"{path} is damaged: {error}"]
    if not isinstance(told, dict) or not isinstance(told.get("files"), dict):
        return [f"{path} names no files"]
    directory = RunDirectory(run)
    end_of_links(directory.history_path)
    due = _read_bound(directory)
    names = sorted({*told["files"], *due["files"]})
    found = [
        f"{run / name} is not as it was bound"
        if name in due["files"] and name in told["files"]
        else f"{run / name} was bound and is gone"
        if name in told["files"]
        else f"{run / name} came in later"
        for name in names
        if told["files"].get(name) != due["files"].get(name)
    ]
    if not found and orjson.dumps(told, option=orjson.OPT_SORT_KEYS) != orjson.dumps(due, option=orjson.OPT_SORT_KEYS):
        # Of 1 and true Python says that they are the same.
        other = [name for name in {**due, **told} if repr(told.get(name)) != repr(due.get(name))]
        found = [f"{path}: {', '.join(other) or 'a field'} is another"]
    return found + [one for control in _controls(run) for one in complaints(control)]


def _read_bound(run: RunDirectory) -> dict[str, Any]:
    files = {str(path.relative_to(run.path)): _digest(path) for path in bound_files(run.path)}
    files |= {str((one / NAME).relative_to(run.path)): _digest(one / NAME) for one in _controls(run.path)}
    try:
        manifest: Any = orjson.loads(run.manifest_path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        manifest = {}
    head = {
        "format": FORMAT,
        "run": manifest.get("run"),
        "commit": (manifest.get("git") or {}).get("commit"),
        "history": _last_link(run.history_path),
    }
    root = hashlib.sha256(orjson.dumps([head, files], option=orjson.OPT_SORT_KEYS)).hexdigest()
    return {**head, "files": files, "root": root}


def bound_files(run: Path) -> Iterator[Path]:
    """Yield the files of a run that are bound, without those of its controls."""
    for path in sorted(run.rglob("*")):
        inside = path.relative_to(run)
        if path.is_file() and inside.parts[0] not in BESIDE and str(inside) not in MADE_OF_IT:
            yield path


def _controls(run: Path) -> list[Path]:
    return sorted(path for path in (run / "controls").glob("*") if path.is_dir())


def _digest(path: Path) -> str | None:
    """Return the digest of a file; None where there is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _last_link(history: Path) -> str | None:
    lines = history.read_bytes().splitlines() if history.is_file() else []
    return link_in(lines[-1]) if lines else None
