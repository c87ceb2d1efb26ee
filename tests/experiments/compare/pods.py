"""System usage under four semantics on a cluster: the arms of `make compare`, small, each as a pipeline in pods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from effectively_once_jobs.system_usage.settings import ALL
from infra.console import Console
from tests.experiments.compare import page
from tests.experiments.compare.plan import Plan
from tests.experiments.compare.results import Comparison, write
from tests.experiments.compare.run import NEEDS, played
from tests.experiments.in_pods import in_pods, printed
from tests.experiments.pods import PodGround

if TYPE_CHECKING:
    from rich.console import Console as Out

SIZES = {"warm_up": 300, "burst": 1_500, "calm": 1_000, "struck": 3_000, "kills": 1, "driver_kills": 1}


def on_this_machine(seed: int, console: Console) -> Comparison:
    """Play it on the cluster of this machine, and judge it; raises as `in_pods` does.

    Args:
        seed: what is sent, killed and goes wrong.
        console: tells what is under way.
    """
    plan = Plan(seed, **SIZES)

    def play(path: Path, ground: PodGround) -> None:
        played(path, plan, ALL, ground, console)

    return write(in_pods("system_usage", seed, console, play, runs="compare", plan=plan.told(), needs=NEEDS))


def show(results: Comparison, out: Out) -> None:
    """Print the tables and what was judged."""
    printed(page.markdown(results), out)
