"""System usage under four semantics on a cluster: the arms of `make compare`, small, each as a pipeline in pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectively_once_jobs.system_usage.settings import ALL
from infra.console import Console
from infra.toolchain.prepare import CHECKOUT
from tests.arms.command import begun
from tests.arms.page import IN_PODS
from tests.arms.pods import pods
from tests.compare import page
from tests.compare.plan import Plan
from tests.compare.results import Comparison, write
from tests.compare.run import NEEDS, played
from tests.harness.cluster_run import Found

if TYPE_CHECKING:
    from rich.console import Console as Out

SIZES = {"warm_up": 300, "burst": 1_500, "calm": 1_000, "struck": 3_000, "kills": 1, "driver_kills": 1}


def on_this_machine(seed: int, console: Console) -> Comparison:
    """Play it on the cluster that this machine's state directory or KUBECONFIG names, and judge it.

    Args:
        seed: what is sent, killed and goes wrong.
        console: tells what is under way.

    Raises:
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
        RunError: the platform has no PostgreSQL.
    """
    found, plan = Found.here(console), Plan(seed, **SIZES)
    found.target()
    command = f"make acceptance SUITE=jobs JOB=system_usage SEED={seed}"
    path = begun(CHECKOUT / "runs" / "compare", seed, command, plan.told(), IN_PODS)
    console.say(f"run {path.relative_to(CHECKOUT)}")
    with pods(path, seed, console, found, NEEDS) as ground:
        played(path, plan, ALL, ground, console)
    return write(path)


def show(results: Comparison, out: Out) -> None:
    """Print the tables and what was judged."""
    out.print(page.markdown(results), markup=False, highlight=False, soft_wrap=True)
