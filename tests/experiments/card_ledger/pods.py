"""The card ledger on a cluster: each way as a pipeline in pods, with the payment service as a pod beside it."""

from __future__ import annotations

from infra.cluster.access import CHECKOUT
from infra.console import Console
from tests.experiments.card_ledger.demo import CARD_RECORDS, CardDemo
from tests.experiments.card_ledger.results import CardResults
from tests.experiments.card_ledger.show import show
from tests.experiments.card_ledger.ways import KILLS
from tests.experiments.in_pods import alone_on_cluster

__all__ = ["on_this_machine", "show"]


def on_this_machine(seed: int, console: Console, records: int = CARD_RECORDS, kills: int = len(KILLS)) -> CardResults:
    """Play it on the cluster that this machine's state directory or KUBECONFIG names, and judge it.

    Args:
        seed: what is sent, killed and goes wrong.
        console: tells what is under way.
        records: how many are sent to each way.
        kills: how many each way gets.

    Raises:
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        ToolchainError: Java or the broker's jars are not to be had.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
    """
    with alone_on_cluster(f"a run of card_ledger, seed {seed}", console, None) as open_stack:
        return CardDemo(CHECKOUT, "cluster", open_stack, seed, console, records, kills).run()
