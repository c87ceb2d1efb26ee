"""The card ledger on a cluster: each way as a pipeline in pods, with the payment service as a pod beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from infra.cluster.access import CHECKOUT
from infra.console import Console
from tests.experiments.pods import pods
from tests.experiments.stack import Cast
from tests.harness.adapters.pod_payments import PodPayments
from tests.harness.cards.demo import CARD_RECORDS, CardDemo
from tests.harness.cards.judge import JOURNAL
from tests.harness.cards.kills import PodCardKills
from tests.harness.cards.results import CardResults
from tests.harness.cards.scene import Scene
from tests.harness.cards.show import show
from tests.harness.cards.ways import KILLS, Way
from tests.harness.cards.workload import CARDS
from tests.harness.payments.mischief import Mischief
from tests.harness.play.room import Found
from tests.harness.run_directory import RunDirectory

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
    with Found.alone(f"a run of card_ledger, seed {seed}", console) as found:
        found.target()
        scene = partial(on_cluster, found, seed, console)
        return CardDemo(CHECKOUT, "cluster", scene, seed, console, records, kills).run()


@contextmanager
def on_cluster(found: Found, seed: int, console: Console, directory: RunDirectory) -> Iterator[Scene]:
    """Room for a run on a cluster, and everything of it deleted afterwards.

    Raises:
        NotDeployedError: there is no pipeline to take.
    """
    with pods(directory.path, seed, console, found, None) as stack:
        stage = stack.stage

        def payments(way: Way, own: RunDirectory, mischief: Mischief) -> PodPayments:
            return PodPayments(
                stage.cluster,
                f"{stage.run}-{way.name}",
                stage.run,
                str(stage.target.values["image"]),
                own.path / JOURNAL,
                CARDS,
                mischief,
            )

        def kills(cast: Cast) -> PodCardKills:
            drivers: Any = cast.drivers[0]
            hold: Any = cast.hold
            return PodCardKills(drivers, cast.watch, hold, say=console.say)

        yield Scene(stack, payments, kills, console)
