"""What runs made by hand have in common, whatever the experiment; tests damage them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.experiments.results import Results
from tests.experiments.run_folder import write_manifest

Rows = list[dict[str, Any]]
MACHINE = {"cores": 2, "processor": "any", "memory_gib": 4.0, "load": 0.1}


def manifest(path: Path, kind: str, command: str, plan: Any, jvm: str = "quick") -> None:
    """Write the manifest of a run."""
    write_manifest(path, kind, command, plan, jvm, machine=MACHINE, git={})


def failing(results: Results[Any, Any]) -> list[tuple[str, bool]]:
    """Return signs that do not hold, and whether each is a promise."""
    return [(f"{sign.of} {sign.says}", sign.promise) for sign in results.signs if not sign.holds]


def changed(lines: Path, change: Callable[[Rows], object]) -> None:
    """Change a file of JSON lines."""
    rows = [orjson.loads(line) for line in lines.read_bytes().splitlines()]
    change(rows)
    write(lines, rows)


def write(lines: Path, rows: Sequence[Any]) -> None:
    """Write a file of JSON lines."""
    lines.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
