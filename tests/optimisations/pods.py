"""Fusion and combiner lifting on a cluster: the variants of `make bench CASE=optimisations`, small, each in pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.console import Console
from infra.toolchain.prepare import CHECKOUT
from tests.arms.command import begun
from tests.arms.page import IN_PODS
from tests.arms.pods import pods
from tests.harness.cluster_run import Found
from tests.optimisations import page
from tests.optimisations.plan import Plan
from tests.optimisations.play import Play
from tests.optimisations.results import Optimisations, write

if TYPE_CHECKING:
    from rich.console import Console as Out


def on_this_machine(seed: int, console: Console) -> Optimisations:
    """Play it on the cluster that this machine's state directory or KUBECONFIG names, and judge it.

    Args:
        seed: of the records.
        console: tells what is under way.

    Raises:
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
    """
    found, plan = Found.here(console), Plan(seed=seed)
    found.target()
    command = f"make acceptance SUITE=jobs JOB=optimisations SEED={seed}"
    path = begun(CHECKOUT / "runs" / "optimisations", seed, command, plan.model_dump(), IN_PODS)
    console.say(f"run {path.relative_to(CHECKOUT)}")
    with pods(path, seed, console, found, None) as ground:
        Play(path, plan, ground, console).go()
    return write(path)


def show(results: Optimisations, out: Out) -> None:
    """Print the tables and what was judged."""
    out.print(page.markdown(results), markup=False, highlight=False, soft_wrap=True)
