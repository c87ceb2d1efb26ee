"""Where the ways are played: processes of this machine, or pods of a cluster. What is played is the same."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from effectively_once.settings import PipelineSettings
from effectively_once_jobs.card_ledger.payments import VARIABLE
from infra.console import Console
from infra.embedded.job import Job
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.cards.judge import JOURNAL
from tests.harness.cards.kills import CardKills
from tests.harness.cards.ways import Way
from tests.harness.cards.workload import CARDS
from tests.harness.faults.arsenal import Arsenal
from tests.harness.history import History
from tests.harness.own_act import PROGRAM, OwnHome
from tests.harness.payments.mischief import Mischief
from tests.harness.payments.server import PaymentService
from tests.harness.place import Patience, Place
from tests.harness.run_directory import RunDirectory

SHARDS = 2
PATIENCE = Patience(driver_s=180.0, replaced_s=120.0, take_over_s=120.0)


class Service(Protocol):
    """The payment service of one way."""

    @property
    def address(self) -> str:
        """Base URL, as this process reaches it."""

    @property
    def journal(self) -> Path:
        """Its journal, in the run directory, as of the last `keep`."""

    def keep(self) -> None:
        """Have the journal as it is now in the run directory."""


@dataclass(frozen=True)
class Scene:
    """What one way is played with.

    Attributes:
        place: servers, and the pipeline's processes.
        arsenal: makes the kills.
        service: the payment service.
    """

    place: Place
    arsenal: Arsenal
    service: Service


class Ground(Protocol):
    """Where the ways are played."""

    def scene(
        self, way: Way, directory: RunDirectory, history: History, mischief: Mischief, settings: Mapping[str, Any]
    ) -> AbstractContextManager[Scene]:
        """Everything for one way, gone again afterwards, with the journal in the run directory.

        Args:
            way: which.
            directory: where its files go.
            history: told of drivers.
            mischief: which calls of the service go wrong.
            settings: of the pipeline, but for names and addresses.
        """


@dataclass(frozen=True)
class EmbeddedGround:
    """Processes of this machine.

    Attributes:
        stack: broker and object store.
        toolchain: of the stack.
        console: tells what is under way.
        class_archive: shared class data of Spark's JVMs.
    """

    stack: EmbeddedStack
    toolchain: Toolchain
    console: Console
    class_archive: Path | None = None

    @contextmanager
    def scene(
        self, way: Way, directory: RunDirectory, history: History, mischief: Mischief, settings: Mapping[str, Any]
    ) -> Iterator[Scene]:
        """See Ground."""
        endpoints = self.stack.endpoints
        os.environ["AWS_ACCESS_KEY_ID"] = endpoints.s3_access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = endpoints.s3_secret_key
        own: dict[str, Any] = {
            "pipeline": f"cards_{way.name}", "topic": f"{way.name}_transactions", "job": way.job, "shards": SHARDS,
        }  # fmt: skip
        service = PaymentService(directory.path / JOURNAL, directory.logs / "payments.log", CARDS, mischief)
        try:
            service.start()
            hold = Hold(directory.path.absolute() / "work" / "points")
            home = OwnHome(
                self.toolchain, endpoints, directory.path, self.class_archive,
                environment={**Job(own).environment(self.toolchain), **hold.env, VARIABLE: service.address},
            )  # fmt: skip
            watch = Watch(directory.path.absolute() / "work" / "events.jsonl", history)
            drivers = SupervisedDrivers(home, PROGRAM, watch.path, history=history, say=self.console.say)
            whole = PipelineSettings(
                **{**settings, **own}, kafka_bootstrap=endpoints.kafka_bootstrap, s3_endpoint=endpoints.s3_endpoint,
                s3_bucket=endpoints.s3_bucket,
            )  # fmt: skip
            place = Place(endpoints, whole, drivers, watch, patience=PATIENCE)
            yield Scene(place, CardKills(drivers, watch, hold, say=self.console.say), service)
        finally:
            service.stop()
