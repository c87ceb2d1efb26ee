"""Where pipelines run: processes of this machine, or pods of a cluster. What is run on it is the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Unpack

import psycopg

from effectively_once.pipeline.settings import PipelineSettings
from infra.embedded.stack import Endpoints
from tests.harness.adapters.witness import Witness
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.processes import Asked, Processes, Role


@dataclass(frozen=True)
class Patience:
    """Bounds of waits, in seconds: for the first driver, an executor's replacement, a restarted driver's take-over."""

    driver_s: float = 120.0
    replaced_s: float = 40.0
    take_over_s: float = 60.0


class Database(Protocol):
    """The result store, as this process reaches it."""

    def connect(self) -> psycopg.Connection:
        """Open a connection; every statement commits by itself. Raises psycopg.Error."""


class Stack(Protocol):
    """Servers, and whatever runs pipelines beside them. Its owner stops it."""

    @property
    def endpoints(self) -> Endpoints:
        """How this process reaches broker and object store."""

    @property
    def database(self) -> Database:
        """The result store, of a stack that was made with one."""

    @property
    def replication(self) -> int:
        """Copies of topics that a run makes."""

    @property
    def broker_data(self) -> Path | None:
        """Folder of the broker's topics; None where it is not on this machine."""

    @property
    def patience(self) -> Patience:
        """How long things may take here."""

    def witness(self, history: History) -> Witness:
        """Note which processes come and go; whoever asks starts and stops it."""

    def pipeline(self, name: str) -> str:
        """A pipeline's name, made into one that no other run has; its topics' names begin with it."""

    def settings(self, role: Role) -> PipelineSettings:
        """A pipeline's settings with the addresses of this stack."""

    def prepare(
        self, directory: RunDirectory, history: History, module: str, roles: Sequence[Role], **asked: Unpack[Asked]
    ) -> Processes:
        """Make drivers ready; nothing is started.

        Args:
            directory: settings, logs and what is no evidence (`work`) go there.
            history: told of drivers and of what is announced.
            module: what each driver runs.
            roles: a driver each.
            asked: what else a driver is to have.
        """

    def create(self, directory: RunDirectory, role: Role, partitions: int) -> None:
        """Make the source, and what a job lacks of topics and tables, as a deployment does. Raises RunError."""
