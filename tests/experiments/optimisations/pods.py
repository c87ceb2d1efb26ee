"""Fusion and combiner lifting on a cluster: the variants of `make bench CASE=optimisations`, small, each in pods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from infra.console import Console
from tests.experiments.in_pods import in_pods, printed
from tests.experiments.optimisations import page
from tests.experiments.optimisations.plan import Plan
from tests.experiments.optimisations.play import Play
from tests.experiments.optimisations.results import Optimisations, write
from tests.experiments.pods import PodGround

if TYPE_CHECKING:
    from rich.console import Console as Out


def on_this_machine(seed: int, console: Console) -> Optimisations:
    """Play it on the cluster of this machine, and judge it; raises as `in_pods` does.

    Args:
        seed: of the records.
        console: tells what is under way.
    """
    plan = Plan(seed=seed)

    def play(path: Path, ground: PodGround) -> None:
        Play(path, plan, ground, console).go()

    told = plan.model_dump()
    return write(in_pods("optimisations", seed, console, play, runs="optimisations", plan=told, needs=None))


def show(results: Optimisations, out: Out) -> None:
    """Print the tables and what was judged."""
    printed(page.markdown(results), out)
