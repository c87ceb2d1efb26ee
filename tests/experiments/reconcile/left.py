"""What a play leaves for the judge beside sends and sinks, read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from effectively_once_jobs.reconcile.difference import Cell
from tests.harness.evidence import EvidenceError
from tests.harness.run_directory import read_lines

TODO = "run again"


def report(path: Path) -> dict[str, Any]:
    """Read what the batch run says of itself. Raises EvidenceError."""
    try:
        found: dict[str, Any] = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise EvidenceError(f"the batch run left no report ({error})", path, TODO) from error
    return found


def cells(path: Path) -> list[Cell]:
    """Read what it counted, by key, window and value. Raises EvidenceError."""
    try:
        return [Cell(**row) for row in read_lines(path)]
    except TypeError as error:
        raise EvidenceError(f"a line is no cell ({error})", path, TODO) from error
