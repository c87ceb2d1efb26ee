"""What a way has beside its pipeline, on either stack: the payment service, and the kills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tests.experiments.card_ledger.judge import JOURNAL
from tests.experiments.card_ledger.kills import CardKills, PodCardKills
from tests.experiments.card_ledger.payments.mischief import Mischief
from tests.experiments.card_ledger.payments.server import PaymentService
from tests.experiments.card_ledger.pod_payments import PodPayments
from tests.experiments.card_ledger.ways import Way
from tests.experiments.card_ledger.workload import CARDS
from tests.harness.faults.arsenal import Arsenal
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.embedded import ProcessStack
from tests.harness.stack.processes import Processes
from tests.harness.stack.stack import Stack


class Service(Protocol):
    """The payment service of one way."""

    @property
    def inside(self) -> str:
        """Base URL, as the pipeline reaches it; once it runs."""

    @property
    def address(self) -> str:
        """Base URL, as this process reaches it."""

    @property
    def journal(self) -> Path:
        """Its journal, in the run directory, as of the last `keep`."""

    def start(self) -> None:
        """Start it, and return when it answers."""

    def keep(self) -> None:
        """Have the journal as it is now in the run directory."""

    def stop(self) -> None:
        """End it. Safe to repeat."""


def service_on(stack: Stack, way: Way, directory: RunDirectory, mischief: Mischief) -> Service:
    """Make the service of a way; it is not started.

    Args:
        stack: where the pipeline runs.
        way: which.
        directory: of the way: the journal goes there.
        mischief: which calls go wrong.
    """
    if isinstance(stack, ProcessStack):
        return PaymentService(directory.path / JOURNAL, directory.logs / "payments.log", CARDS, mischief)
    from tests.harness.stack.cluster import ClusterStack  # noqa: PLC0415 - it brings the client of a cluster

    assert isinstance(stack, ClusterStack), "there are two kinds of stacks"
    pods, name, image = stack.cluster, f"{stack.run}-{way.name}", str(stack.target.values["image"])
    return PodPayments(pods, name, stack.run, image, directory.path / JOURNAL, CARDS, mischief)


def arsenal_on(stack: Stack, processes: Processes, say: Callable[[str], None]) -> Arsenal:
    """Make the kills against the pipeline of a way; `say` is told what is under way."""
    drivers: Any = processes.drivers[0]
    hold: Any = processes.hold
    if isinstance(stack, ProcessStack):
        return CardKills(drivers, processes.watch, hold, say=say)
    return PodCardKills(drivers, processes.watch, hold, say=say)
