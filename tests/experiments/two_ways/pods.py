"""Both ways to effectively-once on a cluster: the arms of `make two-ways`, small, each process of them in a pod."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.console import Console
from tests.experiments.in_pods import in_pods, printed
from tests.experiments.pods import PodGround
from tests.experiments.two_ways import page
from tests.experiments.two_ways.plan import Plan
from tests.experiments.two_ways.results import TwoWays, write
from tests.experiments.two_ways.run import NEEDS, SMALL, played

if TYPE_CHECKING:
    from rich.console import Console as Out

SIZES: dict[str, Any] = {**SMALL, "paced": 400, "pace": 40}
"""To kill somebody in a pod takes longer, so the part at a pace does."""


def on_this_machine(seed: int, console: Console) -> TwoWays:
    """Play it on the cluster of this machine, and judge it; raises as `in_pods` does.

    Args:
        seed: what is sent, and killed.
        console: tells what is under way.
    """
    plan = Plan(seed, **SIZES)

    def play(path: Path, ground: PodGround) -> None:
        played(path, plan, plan.arms, ground, console)

    return write(in_pods("two_ways", seed, console, play, runs="two-ways", plan=plan.told(), needs=NEEDS))


def show(results: TwoWays, out: Out) -> None:
    """Print the tables and what was judged."""
    printed(page.markdown(results), out)
