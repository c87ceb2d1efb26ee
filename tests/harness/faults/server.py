"""Servers of the stack (broker, object store, result store): killed and started again, or stopped for a while."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import psutil

from infra.embedded.process import descendants, identity
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.faults.fault import Lasting, kill, process_of
from tests.harness.faults.healing import Debt, Healing
from tests.harness.faults.stopped import Standstill


class Restartable(Protocol):
    """The part of infra.embedded.server.Server that is used."""

    name: str

    @property
    def pid(self) -> int:
        """Of the process; raises ServerError when there is none."""

    def running(self) -> bool:
        """Whether its process is there."""

    def restart(self) -> None:
        """Start it again on the same data and port; returns when it answers."""


def family(server: Restartable) -> list[psutil.Process]:
    """Its process, and those below it. Raises NoProcessError: it does not run."""
    if not server.running():
        raise NoProcessError(f"the {server.name} does not run")
    process = process_of(server.pid)
    return [process, *descendants(process.pid)]


def present(server: Restartable) -> list[str]:
    """Who is there now, as history names it: itself, another one in its place, or nobody."""
    who = identity(server.pid) if server.running() else None
    return [who] if who else []


class KilledServer(Lasting):
    """A server gets SIGKILL, with the processes below it, and is started again, at once or after a while.

    Args:
        server: whom.
        down_s: how long it stays down, the time of its start not counted.
        healing: starts it whatever happens.
        ended: ends the wait early; left out, the end of the run does.
    """

    def __init__(
        self, server: Restartable, down_s: float, healing: Healing, ended: threading.Event | None = None
    ) -> None:
        super().__init__(healing, down_s)
        self._server, self._ended = server, ended or healing.ended
        self._debt = Debt(f"start the {server.name} again", server.restart, server=True)
        self._who = ""

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        processes = family(self._server)
        self._healing.owe(self._debt)
        struck = self._blow(processes)
        self._who = struck[0]
        return [struck]

    def endure(self) -> None:
        self._ended.wait(self._seconds)

    def after(self) -> list[str]:
        return [who for who in present(self._server) if who != self._who]

    def _blow(self, processes: list[psutil.Process]) -> Struck:
        struck = kill(processes[0])
        for one in processes[1:]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        return struck


class StoppedServer(Standstill):
    """A server and the processes below it stand still for some seconds: connections stay open, and nobody answers."""

    def __init__(self, server: Restartable, seconds: float, healing: Healing) -> None:
        super().__init__(server.name, healing, seconds)
        self._server = server

    def after(self) -> list[str]:
        return present(self._server)

    def _victims(self, event: Mapping[str, Any]) -> list[psutil.Process]:
        return family(self._server)
