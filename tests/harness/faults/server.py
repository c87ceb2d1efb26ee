"""Servers of the stack (broker, object store, result store): killed and started again, or stopped for a while."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import psutil

from infra.embedded.process import descendants, identity
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.faults.fault import Fault, killed, process_of
from tests.harness.faults.healing import Debt, Healing
from tests.harness.faults.stopped import Stopped


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


class KilledServer(Fault):
    """A server gets SIGKILL, with the processes below it, and is started again, at once or after a while.

    Args:
        server: whom.
        down_s: how long it stays down, the time of its start not counted.
        healing: starts it whatever happens.
        ended: ends the wait early.
    """

    lasting = True

    def __init__(self, server: Restartable, down_s: float, healing: Healing, ended: threading.Event) -> None:
        self._server, self._down_s, self._healing, self._ended = server, down_s, healing, ended
        self._debt = Debt(f"start the {server.name} again", server.restart, server=True)
        self._who = ""

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        if not self._server.running():
            raise NoProcessError(f"the {self._server.name} does not run")
        self._healing.owe(self._debt)
        struck = self._blow()
        self._who = struck[0]
        return [struck]

    def endure(self) -> None:
        self._ended.wait(self._down_s)

    def heal(self) -> None:
        self._healing.pay(self._debt)

    def after(self) -> list[str]:
        who = identity(self._server.pid) if self._server.running() else None
        return [] if who in (None, self._who) else [str(who)]

    def _blow(self) -> Struck:
        process = process_of(self._server.pid)
        family = descendants(process.pid)
        struck = killed(process)
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        return struck


class StoppedServer(Fault):
    """A server and the processes below it stand still for some seconds: connections stay open, and nobody answers."""

    lasting = True

    def __init__(self, server: Restartable, seconds: float, healing: Healing, ended: threading.Event) -> None:
        self._server, self._seconds, self._healing, self._ended = server, seconds, healing, ended
        self._stopped: Stopped

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        if not self._server.running():
            raise NoProcessError(f"the {self._server.name} does not run")
        process = process_of(self._server.pid)
        self._stopped = Stopped(self._server.name, [process, *descendants(process.pid)], self._healing)
        return [self._stopped.stop()]

    def endure(self) -> None:
        self._ended.wait(self._seconds)

    def heal(self) -> None:
        self._stopped.resume()

    def after(self) -> list[str]:
        who = identity(self._server.pid) if self._server.running() else None
        return [who] if who else []

    def evidence(self) -> dict[str, Any]:
        return {"stopped_s": self._stopped.stopped_s}
