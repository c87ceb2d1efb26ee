"""A drill on the cluster of this machine: refused wherever it could destroy what is not this project's."""

from __future__ import annotations

from pathlib import Path

from infra.cluster.kind import NAME
from infra.cluster.record import Record
from infra.cluster.state import StateDirectory, state_directory
from infra.console import Console
from infra.errors import RefusedError
from infra.toolchain.prepare import CHECKOUT
from tests.experiments.drill.experiment import EXPERIMENT
from tests.experiments.drill.page import Drill
from tests.experiments.drill.plan import Plan
from tests.experiments.page import IN_PODS
from tests.experiments.run_folder import begin
from tests.harness.stack.deployed import Found
from tests.harness.stack.pods import pods


def play(plan: Plan, console: Console) -> Drill:
    """Play a drill on the cluster that `make up` made here, and judge it.

    Raises:
        RefusedError: the cluster is another one; nothing was touched.
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
    """
    command = f"make drill ON=cluster SEED={plan.seed} PARTS={','.join(plan.parts)}"
    with Found.alone("make drill", console) as found:
        refuse_others(state_directory(), found.deployed.kubeconfig, found.deployed.context)
        found.target()
        path = begin(CHECKOUT / "runs" / EXPERIMENT.command, EXPERIMENT.name, command, plan, IN_PODS)
        console.say(f"run {path.relative_to(CHECKOUT)}: {', '.join(plan.parts)}")
        with pods(path, console, found, None) as stack:
            EXPERIMENT.play(path, plan, plan.parts, stack, console)
        return EXPERIMENT.write(path)


def refuse_others(state: StateDirectory, kubeconfig: Path, context: str | None) -> None:
    """Refuse a cluster that `make up` did not make on this machine. Raises RefusedError."""
    record = Record.read(state.record)
    why = ""
    if record is None or record.state != "ready":
        why = f"{state.record} knows of no cluster that `make up` made"
    elif kubeconfig.resolve() != state.kubeconfig.resolve():
        why = f"KUBECONFIG names {kubeconfig}, and that cluster's is {state.kubeconfig}"
    elif context not in (None, f"kind-{NAME}"):
        why = f"context {context} is not kind-{NAME}"
    if why:
        raise RefusedError(
            f"a drill destroys what it finds, so it plays only on this project's cluster on this machine: {why}. Run "
            '`make up` and `eval "$(make env)"`, or play it with ON=embedded'
        )
