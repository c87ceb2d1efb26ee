"""The files of a run directory that are packed, and what the lines of each refer to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from tests.harness.checkers.binding import NAME as BOUND
from tests.harness.checkers.binding import bound_files
from tests.harness.pack.references import References, Rows, Sends
from tests.harness.pack.workload import RecordedWorkload, workload_of

MANIFEST: Final = "manifest.json"
RESULTS: Final = "results.json"
HISTORY: Final = "history.jsonl"
SENT: Final = "sent.jsonl"
OBSERVED: Final = "observed"
CONTROLS: Final = "controls"
SEEN: Final = ".concurrent.jsonl"


class Referred:
    """What the lines of a run directory's files refer to."""

    def __init__(self, folder: Path, workload: RecordedWorkload | None) -> None:
        self._sent = folder / SENT
        self._observed = folder / OBSERVED
        self._workload = workload
        self._sends: Sends | None = None

    def of(self, path: Path) -> References:
        """References for a file, made of those that come before it."""
        if path == self._sent:
            return self._workload.plan if self._workload else References()
        if path.name.endswith(SEEN):
            return Rows(lines_of(path.with_name(path.name.removesuffix(SEEN) + ".jsonl")))
        if path.parent == self._observed and path.suffix == ".jsonl":
            self._sends = self._sends or Sends(lines_of(self._sent))
            return self._sends
        return References()


def evidence_in(folder: Path) -> Iterator[Path]:
    """Every file that the judge reads, each behind those it refers to, and what it said."""
    observed = sorted((folder / OBSERVED).glob("*"), key=lambda path: (path.name.endswith(SEEN), path.name))
    first = (folder / MANIFEST, folder / HISTORY, folder / SENT, *observed)
    rest = sorted({*bound_files(folder), folder / BOUND, folder / RESULTS} - {*first})
    for path in (*first, *rest):
        if path.is_file():
            yield path


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file, without their ends; none where there is no file."""
    if path.is_file():
        with path.open("rb") as file:
            for line in file:
                yield line.removesuffix(b"\n")


def workload_in(folder: Path) -> RecordedWorkload | None:
    """What was sent in a run, or a control; None where it is not known."""
    try:
        manifest = orjson.loads((folder / MANIFEST).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return workload_of(manifest, lines_of(folder / SENT)) if isinstance(manifest, dict) else None


def folder_of(path: Path, run: Path) -> Path:
    """The run directory that a file is of: the run, or one of its controls."""
    parts = path.relative_to(run).parts
    return run / CONTROLS / parts[1] if parts[0] == CONTROLS else run
