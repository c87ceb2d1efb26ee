"""Both ways to effectively-once on a cluster: the arms of `make two-ways`, small, each process of them in a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.console import Console
from infra.toolchain.prepare import CHECKOUT
from tests.arms.command import begun
from tests.arms.page import IN_PODS
from tests.arms.pods import pods
from tests.harness.cluster_run import Found
from tests.twoways import page
from tests.twoways.plan import Plan
from tests.twoways.results import TwoWays, write
from tests.twoways.run import NEEDS, SMALL, played

if TYPE_CHECKING:
    from rich.console import Console as Out

SIZES: dict[str, Any] = {**SMALL, "paced": 400, "pace": 40}
"""To kill somebody in a pod takes longer, so the part at a pace does."""


def on_this_machine(seed: int, console: Console) -> TwoWays:
    """Play it on the cluster that this machine's state directory or KUBECONFIG names, and judge it.

    Args:
        seed: what is sent, and killed.
        console: tells what is under way.

    Raises:
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
        RunError: the platform has no PostgreSQL.
    """
    found, plan = Found.here(console), Plan(seed, **SIZES)
    found.target()
    command = f"make acceptance SUITE=jobs JOB=two_ways SEED={seed}"
    path = begun(CHECKOUT / "runs" / "two-ways", seed, command, plan.told(), IN_PODS)
    console.say(f"run {path.relative_to(CHECKOUT)}")
    with pods(path, seed, console, found, NEEDS) as ground:
        played(path, plan, plan.arms, ground, console)
    return write(path)


def show(results: TwoWays, out: Out) -> None:
    """Print the tables and what was judged."""
    out.print(page.markdown(results), markup=False, highlight=False, soft_wrap=True)
