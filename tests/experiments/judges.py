"""Who judges a run again that has a judge of its own: found by the command that its manifest names."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from tests.experiments.kept import MANIFEST

JUDGES = {
    "compare": "tests.experiments.compare.results",
    "system_usage": "tests.experiments.compare.results",
    "fraud": "tests.harness.fraud.judge",
    "optimisations": "tests.experiments.optimisations.results",
    "reconcile": "tests.experiments.reconcile.results",
    "two-ways": "tests.experiments.two_ways.results",
    "two_ways": "tests.experiments.two_ways.results",
}
"""Target of make, or job of the demo or acceptance -> the module whose `main` judges a run."""
_COMMAND = re.compile(r"make (?:(?:acceptance|demo)\b.*\bJOB=)?([\w-]+)")


def judge_of(run: Path) -> Callable[[Sequence[str]], int] | None:
    """Give the judge of a run: takes its folder as the only word, returns the exit code. None: it has none of these."""
    try:
        manifest = orjson.loads((run / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    command = manifest.get("command") if isinstance(manifest, dict) else None
    found = _COMMAND.match(command) if isinstance(command, str) else None
    if found is None or found[1] not in JUDGES:
        return None
    judge: Callable[[Sequence[str]], int] = importlib.import_module(JUDGES[found[1]]).main
    return judge
