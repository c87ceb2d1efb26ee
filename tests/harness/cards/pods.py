"""The card ledger on a cluster: each way as a pipeline in pods, with the payment service as a pod beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from effectively_once_jobs.card_ledger.payments import VARIABLE
from infra.cluster.access import CHECKOUT
from infra.console import Console
from tests.harness.adapters.events import Watch
from tests.harness.adapters.pod_hold import ENVIRONMENT, PodHold
from tests.harness.adapters.pod_payments import PodPayments
from tests.harness.cards.demo import CARD_RECORDS, CardDemo
from tests.harness.cards.ground import SHARDS, Scene
from tests.harness.cards.judge import JOURNAL
from tests.harness.cards.kills import PodCardKills
from tests.harness.cards.results import CardResults
from tests.harness.cards.show import show
from tests.harness.cards.ways import KILLS, Way
from tests.harness.cards.workload import CARDS
from tests.harness.cluster_run import Found
from tests.harness.history import History
from tests.harness.payments.mischief import Mischief
from tests.harness.place import Place
from tests.harness.room import staged
from tests.harness.run_directory import RunDirectory
from tests.harness.stage import PATIENCE, Stage

__all__ = ["on_this_machine", "show"]


@dataclass(frozen=True)
class PodGround:
    """Pods of a cluster.

    Attributes:
        stage: of the run.
    """

    stage: Stage

    @contextmanager
    def scene(
        self, way: Way, directory: RunDirectory, history: History, mischief: Mischief, settings: Mapping[str, Any]
    ) -> Iterator[Scene]:
        """See Ground."""
        stage, say = self.stage, self.stage.console.say
        service = PodPayments(
            stage.cluster, f"{stage.run}-{way.name}", stage.run, str(stage.target.values["image"]),
            directory.path / JOURNAL, CARDS, mischief,
        )  # fmt: skip
        try:
            with stage.console.step("payment service"):
                service.start()
            own = stage.settings(f"c{way.name[0]}", {**settings, "job": way.job, "shards": SHARDS})
            watch = Watch(directory.path.absolute() / "work" / "events.jsonl", history)
            drivers = stage.supervised(
                own, watch, history, directory.logs, environment={VARIABLE: service.inside, **ENVIRONMENT}
            )
            place = Place(stage.endpoints, own, drivers, watch, stage.replication, PATIENCE)
            kills = PodCardKills(drivers, watch, PodHold(stage.cluster, [drivers.log]), say=say)
            yield Scene(place, kills, service)
        finally:
            service.stop()


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
    found = Found.here(console)
    found.target()
    return CardDemo(CHECKOUT, "cluster", partial(on_cluster, found, seed, console), seed, console, records, kills).run()


@contextmanager
def on_cluster(found: Found, seed: int, console: Console, directory: RunDirectory) -> Iterator[PodGround]:
    """Room for a run on a cluster, and everything of it deleted afterwards.

    Raises:
        NotDeployedError: there is no pipeline to take.
    """
    with staged(found, seed, console, directory) as stage:
        yield PodGround(stage)
