"""The further jobs on a cluster: which there are, and who plays each."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from infra.console import Console
from infra.embedded.job import RunError
from tests.experiments.in_pods import InPods
from tests.experiments.kinds import experiment
from tests.harness.campaigns.suites import JOBS, NoSuiteError
from tests.harness.results import Verdict, worst

if TYPE_CHECKING:
    from rich.console import Console as Out

EXPERIMENT = "tests.experiments"
PLAYED_BY = {
    "card_ledger": "tests.experiments.card_ledger.pods",
    "compare": EXPERIMENT,
    "fraud": "tests.experiments.fraud.pods",
    "reconcile": EXPERIMENT,
    "two_ways": EXPERIMENT,
    "optimisations": EXPERIMENT,
}
"""Job -> the module that plays it in pods, or it is an experiment of that name."""

Played = Callable[[str], Any]
"""Plays the job of a name, at most once; gives what came of it."""


class Judged(Protocol):
    """Results that have a verdict."""

    @property
    def verdict(self) -> Verdict:
        """Of all of it."""


class Player(Protocol):
    """Who plays a job in pods."""

    def on_this_machine(self, seed: int, console: Console) -> Judged:
        """Play it on the cluster that this machine's state directory or KUBECONFIG names, and judge it."""

    def show(self, results: Any, out: Out) -> None:
        """Print verdict, table and reasons."""


def player(job: str) -> Player:
    """Who plays a job. Raises NoSuiteError: there is no such job."""
    if job not in PLAYED_BY:
        raise NoSuiteError(f"the suite {JOBS} has no job {job!r}; there are: {', '.join(PLAYED_BY)}")
    if PLAYED_BY[job] == EXPERIMENT:
        return InPods(experiment(job))
    found: Any = importlib.import_module(PLAYED_BY[job])
    return found  # type: ignore[no-any-return]


def play(job: str | None, seed: int, console: Console, out: Out) -> Verdict:
    """Play one job, or all of them one after the other; the worst of the verdicts.

    Args:
        job: which; None: all.
        seed: what is sent, killed and goes wrong.
        console: tells what is under way.
        out: takes what came of it.

    Raises:
        NoSuiteError: there is no such job; nothing was touched.
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
    """
    names: Sequence[str] = [*PLAYED_BY] if job is None else [job]
    players = {name: player(name) for name in names}
    verdicts: dict[str, Verdict] = {}
    for name, one in players.items():
        console.say(f"{name}, seed {seed}")
        try:
            results = one.on_this_machine(seed, console)
        except RunError as error:
            console.say(f"✗ {name} cannot be played here: {error}")
            verdicts[name] = Verdict.UNKNOWN
            continue
        one.show(results, out)
        verdicts[name] = results.verdict
    if job is None:
        console.say("; ".join(f"{name} {verdict.name}" for name, verdict in verdicts.items()))
    return worst(verdicts.values())
