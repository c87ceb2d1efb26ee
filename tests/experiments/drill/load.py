"""The records of a drill, sent by the clock while everything else is done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from infra.embedded.job import RunError
from tests.experiments.arm import DRAIN_S
from tests.experiments.pace import pace_out
from tests.harness.workload.record import Planned
from tests.harness.workload.sender import Sender


@dataclass
class Load:
    """Records that are sent in a thread of their own, by the clock."""

    sender: Sender
    records: Iterator[Planned]
    pace: int
    over: threading.Event = field(default_factory=threading.Event)
    broke: list[BaseException] = field(default_factory=list)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Begin to send."""
        self._thread = threading.Thread(target=self._send, name="load", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for what is under way."""
        self._thread.join(timeout_s)

    def end(self) -> None:
        """Send no more. Raises RunError: not all that was sent is acknowledged."""
        self.over.set()
        self.join(DRAIN_S)
        if self.broke or self._thread.is_alive() or self.sender.failed:
            why = self.broke[0] if self.broke else f"{self.sender.failed} records were not acknowledged"
            raise RunError(f"records could not be sent: {why}")

    def _send(self) -> None:
        try:
            self.sender.send(pace_out(self.records, self.pace, self.over))
        except BaseException as error:
            self.broke.append(error)
            raise
