"""Servers whose disk can be slowed: those whose processes this machine sees, in a container or not."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import psutil

from infra.cluster.api import ClusterError
from infra.embedded.process import descendants, identity
from tests.harness.adapters.container import find_first
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.server_pods import Pick, Picked, ServerPods
from tests.harness.faults.cluster_server import wait_ready
from tests.harness.faults.fault import named, process_of
from tests.harness.faults.server import Restartable


class Slowable(Protocol):
    """One of them."""

    def wait_ready(self) -> None:
        """Wait until it serves. Raises ClusterTimeoutError."""

    def family(self, event: Mapping[str, Any]) -> tuple[str, list[psutil.Process]]:
        """Who is to be slowed, as history names it, and its processes, the first one first. Raises NoProcessError."""

    def present(self) -> list[str]:
        """Who is there now, as history names it."""

    def told(self) -> Mapping[str, Any]:
        """What history is to tell of why it is this one."""


class SlowableServer:
    """A server of the embedded stack."""

    def __init__(self, server: Restartable) -> None:
        self._server = server

    def wait_ready(self) -> None:
        """Who brings it back waits for it."""

    def family(self, event: Mapping[str, Any]) -> tuple[str, list[psutil.Process]]:
        """See Slowable."""
        if not self._server.running():
            raise NoProcessError(f"the {self._server.name} does not run")
        process = process_of(self._server.pid)
        return named(process), [process, *descendants(process.pid)]

    def present(self) -> list[str]:
        """See Slowable."""
        who = identity(self._server.pid) if self._server.running() else None
        return [who] if who else []

    def told(self) -> Mapping[str, Any]:
        """Nothing: there is one."""
        return {}


class SlowablePod:
    """A server in a pod of a cluster whose engine runs on this machine.

    Args:
        server: its pods.
        pick: chooses one of several; None: the announced shard decides.
        ended: ends waits early.
    """

    def __init__(self, server: ServerPods, pick: Pick | None, ended: threading.Event) -> None:
        self._server, self._pick, self._ended = server, pick or server.picked, ended
        self._picked: Picked | None = None

    def wait_ready(self) -> None:
        """See Slowable."""
        wait_ready(self._server, self._ended)

    def family(self, event: Mapping[str, Any]) -> tuple[str, list[psutil.Process]]:
        """See Slowable."""
        try:
            picked = self._picked = self._pick(event)
        except ClusterError as error:
            raise NoProcessError(f"the {self._server.what} was not struck: {error}") from error
        first = find_first(picked.pod.container_id)
        return picked.pod.who, [first, *descendants(first.pid)]

    def present(self) -> list[str]:
        """See Slowable: kubelet may have started another container."""
        with suppress(ClusterError, OSError):
            return [one.who for one in self._server.ready() if self._picked and one.name == self._picked.pod.name]
        return []

    def told(self) -> Mapping[str, Any]:
        """See Slowable."""
        return self._picked.told if self._picked else {}
