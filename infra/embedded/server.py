"""What every server of the stack has in common: one process at a time, restarted on the same data."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from infra.embedded.ports import free_ports
from infra.embedded.process import Child, ServerError
from infra.toolchain.command import tail

PORT_TRIES = 3


class Server(ABC):
    """A server process. One instance is one server, however often it is restarted; `name` is for messages."""

    name: str

    def __init__(self, log: Path) -> None:
        self._log = log
        self._child: Child | None = None

    @abstractmethod
    def start(self) -> None:
        """Choose ports, make the data directory, start, and return when it answers. Raises ServerError."""

    @abstractmethod
    def _launch(self) -> None:
        """Start the process on the ports and data there are, and return when it answers. Raises ServerError."""

    def _start_on(self, count: int, configure: Callable[[list[int], int], None]) -> None:
        """Choose ports, `configure(ports, attempt)` and launch; other ports when somebody took one meanwhile."""
        for attempt in range(1, PORT_TRIES + 1):
            configure(free_ports(count), attempt)
            try:
                self._launch()
            except ServerError:
                self.stop(grace_s=0)
                # All of them say it so, with an error number or without.
                if attempt == PORT_TRIES or "in use" not in tail(self._log, 200):
                    raise
            else:
                return

    @property
    def pid(self) -> int:
        """Process id of the running server. Raises ServerError when it was not started."""
        if self._child is None:
            raise ServerError(f"{self.name}: not started; call start() first")
        return self._child.pid

    def running(self) -> bool:
        """Whether its process is there."""
        return self._child is not None and self._child.running()

    def restart(self) -> None:
        """Start again on the same data and port, after `stop`, `kill` or a crash; a running one is stopped first.

        Raises ServerError.
        """
        self.stop()
        self._launch()

    def kill(self) -> None:
        """SIGKILL, as a fault would do it. The data stays."""
        if self._child:
            self._child.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send the server a signal (SIGSTOP and SIGCONT, for faults)."""
        if self._child:
            self._child.signal(number)

    def stop(self, grace_s: float = 5.0) -> None:
        """End it in order, by force after `grace_s`. Safe to repeat; the data stays."""
        if self._child:
            self._child.stop(grace_s)
