"""Room for a run on the cluster of this machine: a stage of its own, and everything of it deleted afterwards."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from infra.cluster.access import CHECKOUT
from infra.console import Console
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.rendering import Chart
from tests.harness.adapters.tenancy import Tenancy
from tests.harness.play.cluster_run import Found
from tests.harness.play.stage import Stage
from tests.harness.run_directory import RunDirectory


@contextmanager
def staged(found: Found, seed: int, console: Console, directory: RunDirectory) -> Iterator[Stage]:
    """Make room, with the stores' credentials in the environment of this process.

    Args:
        found: the cluster.
        seed: of the run.
        console: tells what is under way.
        directory: of the run.

    Raises:
        NotDeployedError: there is no pipeline to take.
    """
    deployed, target = found.deployed, found.target()
    endpoints = deployed.endpoints()
    os.environ["AWS_ACCESS_KEY_ID"] = endpoints.s3_access_key
    os.environ["AWS_SECRET_ACCESS_KEY"] = endpoints.s3_secret_key
    cluster = Cluster(deployed.kubeconfig, deployed.context, target.namespace)
    chart = Chart(found.helm, CHECKOUT / "charts" / "streaming-pipeline")
    stage = Stage(
        directory, endpoints, cluster, chart, target, found.tools, seed, console=console, stop=threading.Event()
    )
    with Tenancy(cluster, stage.run, console.say):
        try:
            yield stage
        finally:
            stage.tidy()
