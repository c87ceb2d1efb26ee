"""Kinds of runs: the manifest of a run names its own, and so who judges it."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from infra.command_line import console_out
from infra.errors import RefusedError
from tests.experiments import page
from tests.experiments.experiment import Experiment
from tests.experiments.run_folder import read_manifest
from tests.harness.evidence import EvidenceError
from tests.harness.results import OWN_PIPELINE as OWN_CAMPAIGN

USER_COUNTS: Final = "user_counts"
OWN_PIPELINE: Final = "own_pipeline"
OWN_JUDGE = {
    "card_ledger": ("tests.experiments.card_ledger.judge", "tests.experiments.card_ledger.show"),
    "fraud": ("tests.experiments.fraud.judge", "tests.experiments.fraud.page"),
}
"""Experiments with a judge of their own: the modules that judge a run (`judge`), and print its results (`show`)."""
EXPERIMENTS = ("compare", "two_ways", "reconcile", "optimisations", "drill")
KINDS = (USER_COUNTS, OWN_PIPELINE, *OWN_JUDGE, *EXPERIMENTS)
_BEFORE = {"system_usage": "compare", "two-ways": "two_ways"}
_COMMAND = re.compile(r"make (?:(?:acceptance|demo)\b.*\bJOB=)?([\w-]+)")


def experiment(name: str) -> Experiment[Any, Any]:
    """Give one of the experiments."""
    found: Experiment[Any, Any] = importlib.import_module(f"tests.experiments.{name}.experiment").EXPERIMENT
    return found


def kind_of(run: Path) -> str:
    """Read which kind of run a folder is, from its manifest alone.

    A manifest that cannot be read, or says nothing, is left to the judge of user_counts, who says that: unknown.

    Raises:
        RefusedError: it names a kind that there is not.

    """
    try:
        manifest = read_manifest(run)
    except EvidenceError:
        return USER_COUNTS
    kind = manifest.get("kind", _kind_before(manifest))
    if kind not in KINDS:
        raise RefusedError(f"{run} is a run of kind {kind!r}, which nobody judges; there are: {', '.join(KINDS)}")
    return str(kind)


def _kind_before(manifest: dict[str, Any]) -> str:
    """Tell the kind of a run whose manifest does not name it: it was recorded before, or by one that names none."""
    settings, command = manifest.get("settings"), manifest.get("command")
    if isinstance(command, str) and (said := _COMMAND.match(command)):
        named = _BEFORE.get(said[1], said[1])
        if named in KINDS:
            return named
    if isinstance(settings, dict):
        return OWN_PIPELINE if settings.get("campaign") == OWN_CAMPAIGN else USER_COUNTS
    return "card_ledger" if {"seed", "kills", "records"} <= manifest.keys() else USER_COUNTS


def judge_of(kind: str) -> Callable[[Path], int] | None:
    """Give the judge of a kind: takes a run's folder, returns the exit code. None: it is one of the harness."""
    if kind in EXPERIMENTS:
        return lambda run: judge_again(experiment(kind), run)
    if kind in OWN_JUDGE:
        judge, shown = map(importlib.import_module, OWN_JUDGE[kind])
        return lambda run: _judge_again(run, judge.judge, lambda results: shown.show(results, console_out()))
    return None


def judge_again(one: Experiment[Any, Any], run: Path) -> int:
    """Judge a run of an experiment from its files, and show what comes of it; the exit code."""
    return _judge_again(run, one.write, lambda results: sys.stdout.write(page.markdown(one.page, results) + "\n"))


def _judge_again(run: Path, judge: Callable[[Path], Any], show: Callable[[Any], object]) -> int:
    results = judge(run)
    show(results)
    return int(results.verdict.exit_code)
