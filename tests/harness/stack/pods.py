"""The stack of pods for as long as a block lasts: everything of a run is deleted from the cluster afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

from infra.cluster.access import CHECKOUT
from infra.cluster.login import logged_in
from infra.console import Console
from infra.embedded.job import RunError
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.pod_database import PodDatabase
from tests.harness.adapters.pod_login import PodLogin
from tests.harness.adapters.rendering import Chart
from tests.harness.adapters.service_policies import policies
from tests.harness.adapters.tenancy import Tenancy
from tests.harness.faults.cluster_platform import Platform
from tests.harness.platform_sorts import RESULT_STORE
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.cluster import PATIENCE, ClusterStack
from tests.harness.stack.deployed import Found, Target
from tests.harness.stack.stack import Patience

Lent = Callable[[Cluster, str], AbstractContextManager[None]]
"""What pods of a run, by its label, are lent: it is given back when nothing of the run is left."""


@contextmanager
def on_cluster(
    found: Found,
    target: Target,
    console: Console,
    directory: RunDirectory,
    *,
    checkout: Path = CHECKOUT,
    lent: Lent | None = None,
    patience: Patience = PATIENCE,
) -> Iterator[ClusterStack]:
    """Make room for a run, with logins of broker and stores in the environment of this process.

    Args:
        found: the cluster.
        target: its pipeline.
        console: tells what is under way.
        directory: of the run.
        checkout: where the charts are.
        lent: what its pods are lent; None: nothing.
        patience: how long things may take there.
    """
    deployed = found.deployed
    cluster = Cluster(deployed.kubeconfig, deployed.context, target.namespace)
    chart = Chart(found.helm, checkout / "charts" / "streaming-pipeline")
    with logged_in(deployed) as endpoints, ExitStack() as held:
        login = PodLogin.of(deployed.platform, endpoints)
        stack = ClusterStack(directory, endpoints, cluster, chart, target, found.tools, console, patience, login=login)
        held.enter_context(Tenancy(cluster, stack.run, console.say))
        if objects := login.objects(stack.run):
            cluster.apply(objects)
        if lent is not None:
            held.enter_context(lent(cluster, stack.run))
        try:
            yield stack
        finally:
            stack.tidy()


@contextmanager
def pods(path: Path, console: Console, found: Found, needs: str | None) -> Iterator[ClusterStack]:
    """Have room on a cluster for a run, and the result store; everything of it is deleted afterwards.

    Args:
        path: of the run.
        console: tells what is under way.
        found: the cluster.
        needs: what PostgreSQL is for, in a message where there is none; None where no arm needs one.

    Raises:
        NotDeployedError: there is no pipeline to take.
        RunError: the platform has no PostgreSQL of its own.
    """
    with on_cluster(found, found.target(), console, RunDirectory(path)) as stack:
        stack.cluster.apply(policies(stack.run, stack.target.values))
        if needs is None:
            yield stack
            return
        deployed = found.deployed
        platform = Platform.of(deployed.kubeconfig, deployed.context, deployed.platform, None)
        server = platform.servers.get(RESULT_STORE)
        if server is None:
            raise RunError(f"{needs} needs a result store: the platform on this cluster has no PostgreSQL of its own")
        with closing(PodDatabase.of(server, deployed.platform)) as database:
            database.open(stack.cluster, stack.run)
            stack.lent = database
            yield stack
