"""The lambda comparison on a cluster: the streams and the batch run of `make reconcile`, small, in pods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from infra.console import Console
from tests.experiments.in_pods import in_pods, printed
from tests.experiments.pods import PodGround
from tests.experiments.reconcile import page
from tests.experiments.reconcile.plan import Plan
from tests.experiments.reconcile.results import Reconciliation, write
from tests.experiments.reconcile.run import played

if TYPE_CHECKING:
    from rich.console import Console as Out

SIZES = {"records": 2_400, "kills": 2, "minutes": 24}


def on_this_machine(seed: int, console: Console) -> Reconciliation:
    """Play it on the cluster of this machine, and judge it; raises as `in_pods` does.

    Args:
        seed: what is sent and killed.
        console: tells what is under way.
    """
    plan = Plan(seed, **SIZES)

    def play(path: Path, ground: PodGround) -> None:
        played(path, plan, ground, console)

    return write(in_pods("reconcile", seed, console, play, runs="reconcile", plan=plan.told(), needs=None))


def show(results: Reconciliation, out: Out) -> None:
    """Print the tables and what was judged."""
    printed(page.markdown(results), out)
