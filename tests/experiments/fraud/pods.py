"""Fraud detection on a cluster: every role on an executor that is a pod, the presenter as a pod beside them."""

from __future__ import annotations

from infra.cluster.access import CHECKOUT
from infra.console import Console
from tests.experiments.fraud.demo import NEEDS, FraudDemo
from tests.experiments.fraud.page import show
from tests.experiments.fraud.results import FraudResults
from tests.experiments.in_pods import alone_on_cluster

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
    with alone_on_cluster(f"a run of fraud, seed {seed}", console, NEEDS) as open_stack:
        return FraudDemo(CHECKOUT, "cluster", open_stack, seed, console, RECORDS, rate=RATE, triggers=False).run()
