"""Where the ways are played: a stack, a payment service beside it for each way, and who is killed how."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from effectively_once_jobs.card_ledger.payments import VARIABLE
from infra.console import Console
from tests.experiments.embedded import embedded
from tests.experiments.stack import Cast, Role, Stack
from tests.harness.adapters.job_home import PROGRAM
from tests.harness.cards.judge import JOURNAL
from tests.harness.cards.kills import CardKills
from tests.harness.cards.ways import Way
from tests.harness.cards.workload import CARDS
from tests.harness.faults.arsenal import Arsenal
from tests.harness.history import History
from tests.harness.payments.mischief import Mischief
from tests.harness.payments.server import PaymentService
from tests.harness.place import Patience, Place
from tests.harness.run_directory import RunDirectory

SHARDS = 2
PATIENCE = Patience(driver_s=240.0, replaced_s=120.0, take_over_s=180.0)


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


@dataclass(frozen=True)
class Stand:
    """What one way is played with.

    Attributes:
        place: servers, and the pipeline's processes.
        arsenal: makes the kills.
        service: the payment service, which runs.
    """

    place: Place
    arsenal: Arsenal
    service: Service


@dataclass(frozen=True)
class Scene:
    """Where all ways are played.

    Attributes:
        stack: servers, and where pipelines run.
        payments: makes the service of a way; it is not started.
        kills: makes the arsenal against who plays a way.
        console: tells what is under way.
    """

    stack: Stack
    payments: Callable[[Way, RunDirectory, Mischief], Service]
    kills: Callable[[Cast], Arsenal]
    console: Console

    @contextmanager
    def way(
        self, way: Way, directory: RunDirectory, history: History, mischief: Mischief, settings: Mapping[str, Any]
    ) -> Iterator[Stand]:
        """Everything for one way, gone again afterwards, with the journal in the run directory.

        Args:
            way: which.
            directory: where its files go.
            history: told of drivers.
            mischief: which calls of the service go wrong.
            settings: of the pipeline, but for names and addresses.
        """
        stack, service = self.stack, self.payments(way, directory, mischief)
        try:
            with self.console.step(f"payment service of {way.name}"):
                service.start()
            pipeline = stack.pipeline(f"cards_{way.name}")
            own = {"pipeline": pipeline, "topic": f"transactions_{pipeline}", "job": way.job, "shards": SHARDS}
            role = Role({**settings, **own}, {})
            cast = stack.cast(directory, history, PROGRAM, [role], environment={VARIABLE: service.inside})
            drivers: Any = cast.drivers[0]
            whole = stack.settings(role)
            place = Place(stack.endpoints, whole, drivers, cast.watch, stack.replication, PATIENCE)
            yield Stand(place, self.kills(cast), service)
        finally:
            service.stop()


@contextmanager
def on_embedded(console: Console, directory: RunDirectory) -> Iterator[Scene]:
    """Processes of this machine, for as long as the block lasts."""

    def payments(_: Way, own: RunDirectory, mischief: Mischief) -> PaymentService:
        return PaymentService(own.path / JOURNAL, own.logs / "payments.log", CARDS, mischief)

    def kills(cast: Cast) -> CardKills:
        drivers: Any = cast.drivers[0]
        hold: Any = cast.hold
        return CardKills(drivers, cast.watch, hold, say=console.say)

    with embedded(directory.path, console, None, quick=True) as stack:
        yield Scene(stack, payments, kills, console)
