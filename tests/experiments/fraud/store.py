"""The result store on either stack: the presenter of what it holds, and how it is killed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from tests.experiments.fraud.pod_presenter import PodPresenter
from tests.experiments.fraud.presenter import Presenter
from tests.harness.adapters.drivers import SIGKILL
from tests.harness.faults.cluster_server import EndedServerPod
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.faults.server import KilledServer
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.embedded import ProcessStack
from tests.harness.stack.stack import Stack


class Presenting(Protocol):
    """The presenter, wherever it runs."""

    def start(self) -> None:
        """Start, and return when it answers."""

    def ask(self, id_: str) -> tuple[int, Any]:
        """Status and document of its answer about a transaction."""

    def stop(self) -> None:
        """End it. Safe to repeat."""


def presenter_on(stack: Stack, directory: RunDirectory) -> Presenting:
    """Make the presenter of a stack's result store; it is not started. `directory` is that of the run."""
    if isinstance(stack, ProcessStack):
        code = {"PYTHONPATH": str(stack.toolchain.wheel.installed)}
        return Presenter(stack.database.url, directory.logs / "presenter.log", code)
    from tests.harness.adapters.pod_database import secret_name  # noqa: PLC0415 - they bring the client of a cluster
    from tests.harness.stack.cluster import ClusterStack  # noqa: PLC0415

    assert isinstance(stack, ClusterStack), "there are two kinds of stacks"
    pods, name, image = stack.cluster, f"{stack.run}-presenter", str(stack.target.values["image"])
    verified = stack.database.authority is not None
    return PodPresenter(pods, name, stack.run, image, stack.database.inside, secret_name(stack.run), verified)


def fall_of(stack: Stack, down_s: float) -> Callable[[Healing], Fault]:
    """What kills a stack's result store, which comes back whatever happens.

    Args:
        stack: where the store is.
        down_s: how long it is away, where that is ours to choose.
    """
    if isinstance(stack, ProcessStack):
        server = stack.database
        return lambda healing: KilledServer(server, down_s, healing, threading.Event())
    from tests.harness.stack.cluster import ClusterStack  # noqa: PLC0415 - it brings the client of a cluster

    assert isinstance(stack, ClusterStack), "there are two kinds of stacks"
    pods = stack.database.server
    return lambda healing: EndedServerPod(pods, SIGKILL, healing=healing)
