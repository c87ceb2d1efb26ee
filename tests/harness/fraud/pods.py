"""Fraud detection on a cluster: every role on an executor that is a pod, the presenter as a pod beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from infra.cluster.access import CHECKOUT
from infra.console import Console
from tests.experiments.pods import pods
from tests.harness.adapters.drivers import SIGKILL
from tests.harness.adapters.pod_database import secret_name
from tests.harness.adapters.pod_presenter import PodPresenter
from tests.harness.faults.cluster_server import EndedServerPod
from tests.harness.fraud.demo import FraudDemo
from tests.harness.fraud.page import show
from tests.harness.fraud.results import FraudResults
from tests.harness.fraud.scene import NEEDS, Scene
from tests.harness.play.room import Found
from tests.harness.run_directory import RunDirectory

__all__ = ["on_this_machine", "show"]
RECORDS, RATE = 3_150, 50


def on_this_machine(seed: int, console: Console) -> FraudResults:
    """Play it on the cluster that this machine's state directory or KUBECONFIG names, and judge it.

    Args:
        seed: what is sent and killed.
        console: tells what is under way.

    Raises:
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
        RunError: the platform has no PostgreSQL.
    """
    with Found.alone(f"a run of fraud, seed {seed}", console) as found:
        found.target()
        scene = partial(on_cluster, found, seed, console)
        return FraudDemo(CHECKOUT, "cluster", scene, seed, console, RECORDS, rate=RATE, triggers=False).run()


@contextmanager
def on_cluster(found: Found, seed: int, console: Console, directory: RunDirectory) -> Iterator[Scene]:
    """Room for a run on a cluster, and everything of it deleted afterwards.

    Raises:
        NotDeployedError: there is no pipeline to take.
        RunError: the platform has no PostgreSQL.
    """
    with pods(directory.path, seed, console, found, NEEDS) as stack:
        stage, database = stack.stage, stack.database
        presenter = PodPresenter(
            stage.cluster,
            f"{stage.run}-presenter",
            stage.run,
            str(stage.target.values["image"]),
            database.inside,
            secret_name(stage.run),
        )
        yield Scene(stack, presenter, lambda healing: EndedServerPod(database.server, SIGKILL, healing=healing))
