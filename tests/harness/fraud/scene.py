"""Where fraud detection is played: a stack, the presenter beside it, and how its result store is killed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from infra.console import Console
from infra.embedded.spark import SparkHome
from tests.experiments.embedded import embedded
from tests.experiments.stack import Stack
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.faults.server import KilledServer
from tests.harness.fraud.presenter import Presenter
from tests.harness.run_directory import RunDirectory

NEEDS, MEMORY_MIB = "fraud detection", 512


class Presenting(Protocol):
    """The presenter, wherever it runs."""

    def start(self) -> None:
        """Start, and return when it answers."""

    def ask(self, id_: str) -> tuple[int, Any]:
        """Status and document of its answer about a transaction."""

    def stop(self) -> None:
        """End it. Safe to repeat."""


@dataclass(frozen=True)
class Scene:
    """What a play needs.

    Attributes:
        stack: where the job runs.
        presenter: of its result store; not started yet.
        fall: makes the kill of the result store, which comes back whatever happens.
        memory_mib: heap of an executor; None: what the stack gives.
        home: for Spark's own triggers; None where they are not played.
    """

    stack: Stack
    presenter: Presenting
    fall: Callable[[Healing], Fault]
    memory_mib: int | None = None
    home: SparkHome | None = None


@contextmanager
def on_embedded(console: Console, store_down_s: float, directory: RunDirectory) -> Iterator[Scene]:
    """Processes of this machine, for as long as the block lasts.

    Args:
        console: tells what is up.
        store_down_s: how long the result store is away when it is killed.
        directory: of the run.

    Raises:
        RunError: there is no PostgreSQL.
    """
    with embedded(directory.path, console, NEEDS, quick=True) as stack:
        store, code = stack.database, {"PYTHONPATH": str(stack.toolchain.wheel.installed)}
        yield Scene(
            stack,
            Presenter(store.url, directory.logs / "presenter.log", code),
            lambda healing: KilledServer(store, store_down_s, healing, threading.Event()),
            MEMORY_MIB,
            SparkHome(
                stack.toolchain,
                stack.endpoints,
                directory.path,
                master="local[4]",
                memory_mib=MEMORY_MIB,
                long_lived=True,
            ),
        )
