"""An experiment in pods, from the folder of its run to what is judged of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.console import Console
from infra.toolchain.prepare import CHECKOUT
from tests.experiments import page
from tests.experiments.experiment import Experiment
from tests.experiments.page import IN_PODS
from tests.experiments.results import Results
from tests.experiments.run_folder import begin
from tests.harness.stack.cluster import ClusterStack
from tests.harness.stack.deployed import Found
from tests.harness.stack.pods import pods

if TYPE_CHECKING:
    from rich.console import Console as Out


@contextmanager
def alone_on_cluster(
    command: str, console: Console, needs: str | None
) -> Iterator[Callable[[Path], AbstractContextManager[ClusterStack]]]:
    """Look at this machine's cluster for a command, and keep out every other; what is yielded opens a stack there.

    Args:
        command: is named to whoever comes meanwhile.
        console: tells what is under way.
        needs: see `pods`.

    Raises:
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        ToolchainError: Java or the broker's jars are not to be had.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
    """
    with Found.alone(command, console) as found:
        found.target()
        yield lambda path: pods(path, console, found, needs)


@dataclass(frozen=True)
class InPods:
    """Plays an experiment on the cluster that this machine's state directory or KUBECONFIG names, small."""

    experiment: Experiment[Any, Any]

    def on_this_machine(self, seed: int, console: Console) -> Results[Any, Any]:
        """Play it, and judge it.

        Raises:
            NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
            AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
            RunError: the platform has no PostgreSQL, and one is needed.

        """
        one = self.experiment
        plan = one.plan(seed, **{**one.small, **one.pods})
        command = f"make acceptance SUITE=jobs JOB={one.name} SEED={seed}"
        with alone_on_cluster(command, console, one.needs) as open_stack:
            path = begin(CHECKOUT / "runs" / one.command, one.name, command, plan, IN_PODS)
            console.say(f"run {path.relative_to(CHECKOUT)}")
            with open_stack(path) as stack:
                one.play(path, plan, one.arms(plan), stack, console)
            return one.write(path)

    def show(self, results: Results[Any, Any], out: Out) -> None:
        """Print the tables and what was judged."""
        out.print(page.markdown(self.experiment.page, results), markup=False, highlight=False, soft_wrap=True)
