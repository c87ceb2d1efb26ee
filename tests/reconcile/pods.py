"""The lambda comparison on a cluster: the streams and the batch run of `make reconcile`, small, in pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.console import Console
from infra.toolchain.prepare import CHECKOUT
from tests.arms.command import begun
from tests.arms.page import IN_PODS
from tests.arms.pods import pods
from tests.harness.cluster_run import Found
from tests.reconcile import page
from tests.reconcile.plan import Plan
from tests.reconcile.results import Reconciliation, write
from tests.reconcile.run import played

if TYPE_CHECKING:
    from rich.console import Console as Out

SIZES = {"records": 2_400, "kills": 2, "minutes": 24}


def on_this_machine(seed: int, console: Console) -> Reconciliation:
    """Play it on the cluster that this machine's state directory or KUBECONFIG names, and judge it.

    Args:
        seed: what is sent and killed.
        console: tells what is under way.

    Raises:
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
    """
    found, plan = Found.here(console), Plan(seed, **SIZES)
    found.target()
    command = f"make acceptance SUITE=jobs JOB=reconcile SEED={seed}"
    path = begun(CHECKOUT / "runs" / "reconcile", seed, command, plan.told(), IN_PODS)
    console.say(f"run {path.relative_to(CHECKOUT)}")
    with pods(path, seed, console, found, None) as ground:
        played(path, plan, ground, console)
    return write(path)


def show(results: Reconciliation, out: Out) -> None:
    """Print the tables and what was judged."""
    out.print(page.markdown(results), markup=False, highlight=False, soft_wrap=True)
