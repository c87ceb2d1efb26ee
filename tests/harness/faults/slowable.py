"""Servers whose disk can be slowed: those whose processes this machine sees, in a container or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import psutil

from infra.embedded.process import descendants
from tests.harness.adapters.container import find_first
from tests.harness.faults.cluster_server import PickedServer
from tests.harness.faults.fault import name_process
from tests.harness.faults.server import Restartable, family, present


class Slowable(Protocol):
    """One of them."""

    def wait_ready(self) -> None:
        """Wait until it serves. Raises ClusterTimeoutError."""

    def family(self, event: Mapping[str, Any]) -> tuple[str, list[psutil.Process]]:
        """Who is to be slowed, as history names it, and its processes, the first one first. Raises NoProcessError."""

    def present(self) -> list[str]:
        """Who is there now, as history names it."""

    @property
    def why(self) -> Mapping[str, Any]:
        """What history is to tell of why it is this one."""


class SlowableServer:
    """A server of the embedded stack: there is one."""

    why: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, server: Restartable) -> None:
        self._server = server

    def wait_ready(self) -> None:
        """Who brings it back waits for it."""

    def family(self, event: Mapping[str, Any]) -> tuple[str, list[psutil.Process]]:
        """See Slowable."""
        processes = family(self._server)
        return name_process(processes[0]), processes

    def present(self) -> list[str]:
        """See Slowable."""
        return present(self._server)


class SlowablePod(PickedServer):
    """A server in a pod of a cluster whose engine runs on this machine."""

    def family(self, event: Mapping[str, Any]) -> tuple[str, list[psutil.Process]]:
        """See Slowable."""
        pod = self.choose(event)
        first = find_first(pod.container_id)
        return pod.who, [first, *descendants(first.pid)]
