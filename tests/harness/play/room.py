"""Room for a run on the cluster of this machine: a stage of its own, and everything of it deleted afterwards."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.cluster.access import CHECKOUT, Access, load_access
from infra.cluster.lock import exclusive
from infra.cluster.state import state_directory
from infra.console import Console
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_jars
from infra.toolchain.jdk import find_jdk
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.rendering import Chart
from tests.harness.adapters.tenancy import Tenancy
from tests.harness.play.deployed import USER_COUNTS, NotDeployedError, Target
from tests.harness.play.stage import BrokerTools, Stage
from tests.harness.run_directory import RunDirectory

if TYPE_CHECKING:
    # It brings Spark, and most runs have none.
    from tests.harness.play.result_table import ResultTable


@dataclass(frozen=True)
class Found:
    """What a run on this machine's cluster needs.

    Attributes:
        deployed: the stack.
        tools: of the broker.
        helm: renders the chart.
    """

    deployed: Access
    tools: BrokerTools
    helm: Path

    @classmethod
    def here(cls, console: Console) -> Found:
        """Find it, on the cluster that this machine's state directory or KUBECONFIG names.

        Raises:
            NotDeployedError: there is no helm.
            ToolchainError: Java or the broker's jars are not to be had.
            AccessError and other errors of the cluster: it cannot be reached.
        """
        state = state_directory()
        environment = state.process_environment()
        helm = shutil.which("helm", path=environment["PATH"])
        if helm is None:
            raise NotDeployedError("there is no `helm` on PATH or among the project's tools: run `make tools ALL=1`")
        with console.step("broker jars (Maven)"):
            jars = resolve_jars(Cache(cache_root()), "kafka")
        return cls(load_access(environment, state.root), BrokerTools(find_jdk().java, jars), Path(helm))

    @classmethod
    @contextmanager
    def alone(cls, command: str, console: Console) -> Iterator[Found]:
        """Find it for a command, and keep out every other run, `up` and `down` until the block ends.

        Raises:
            BusyError: one of them is at work; nothing was touched.
            NotDeployedError, ToolchainError, AccessError: as of `here`.
        """
        # Runs pause what is deployed, and delete what other runs left there.
        with exclusive(state_directory(), command):
            yield cls.here(console)

    def target(self, name: str = USER_COUNTS) -> Target:
        """The deployed pipeline of a name, or else `user_counts`. Raises NotDeployedError."""
        return Target.of(self.deployed.pulumi("stack", "output", "--json"), name)


@contextmanager
def make_room(
    found: Found,
    target: Target,
    seed: int,
    console: Console,
    directory: RunDirectory,
    *,
    checkout: Path = CHECKOUT,
    stop: threading.Event | None = None,
    table: ResultTable | None = None,
) -> Iterator[Stage]:
    """Make room, with the stores' credentials in the environment of this process.

    Args:
        found: the cluster.
        target: its pipeline.
        seed: of the run.
        console: tells what is under way.
        directory: of the run.
        checkout: where the charts are.
        stop: set from outside to end early.
        table: what the main pipeline writes to beside its other sinks; None: nothing.
    """
    deployed = found.deployed
    endpoints = deployed.endpoints()
    os.environ.update(endpoints.credentials)
    cluster = Cluster(deployed.kubeconfig, deployed.context, target.namespace)
    chart = Chart(found.helm, checkout / "charts" / "streaming-pipeline")
    stop = stop or threading.Event()
    stage = Stage(
        directory, endpoints, cluster, chart, target, found.tools, seed, console=console, stop=stop, table=table
    )
    with Tenancy(cluster, stage.run, console.say), ExitStack() as held:
        if table is not None:
            held.enter_context(table.lent(cluster, stage.run))
        try:
            yield stage
        finally:
            stage.tidy()
