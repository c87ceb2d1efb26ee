"""The play of one arm: its parts one after the other, each waited for, and the kills while the last one is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from infra.console import Console
from tests.experiments.compare.kills import Kills
from tests.experiments.compare.outputs import Outputs
from tests.experiments.compare.plan import BURST, LATENESS_MS, STRUCK, WARM_UP, Plan
from tests.experiments.ground import Cast
from tests.experiments.pace import paced
from tests.harness.history import History
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import closers
from tests.harness.workload.sender import Sender

DRAIN_S = 300.0


@dataclass
class Play:
    """One arm, from its first record to its last, on a driver that runs.

    Attributes:
        name: of the arm, in messages.
        pipeline: its name, in the log of look-ups.
        cast: its driver.
        cpu_s: processor time by part, filled in as it goes where it is measured.

    """

    name: str
    pipeline: str
    plan: Plan
    sender: Sender
    cast: Cast
    history: History
    outputs: Outputs
    console: Console
    stop: threading.Event
    cpu_s: dict[str, float] = field(default_factory=dict)
    _sent: int = field(default=0, init=False)

    def go(self) -> None:
        """Play it.

        Raises:
            WaitTimedOutError: the job was not done with what was sent, or a driver does not come up.
            ServerError: what was killed was not replaced.

        """
        stream = self.plan.stream()
        for part, numbers in self.plan.parts.items():
            self.history.record("phase", phase=part)
            began_s = self.cast.cpu_s()
            records: Iterable[Planned] = islice(stream, len(numbers))
            if part not in (WARM_UP, BURST):
                records = paced(records, self.plan.pace, self.stop)
            with self.console.step(f"{self.name}: {len(numbers):,} records, {part}"):
                (self._struck if part == STRUCK else self._send)(records, len(numbers))
            if began_s is not None:
                self.cpu_s[part] = round((self.cast.cpu_s() or 0.0) - began_s, 2)
        self.history.record("phase", phase="drain")
        latest = self.sender.last_event_time_ms
        assert latest is not None, "there are transactions among so many records"
        for one in closers(latest, self.plan.records, lateness_ms=LATENESS_MS):
            # Each is in an epoch of its own: the second one has the watermark that closes all windows.
            self._send([one], 1)

    def _struck(self, records: Iterable[Planned], number: int) -> None:
        """Send records while look-ups fail and processes are killed."""
        self.outputs.fails(self.pipeline, self.plan.seed, self.plan.rate)
        kills = Kills(
            self.plan.strikes,
            self.cast.drivers[0],
            self.cast.watch,
            self.cast.hold,
            history=self.history,
            say=self.console.say,
        )
        kills.start()
        try:
            self._send(records, number)
        finally:
            kills.stop_asked.set()
            kills.join()
            self.outputs.fails(self.pipeline, 0, 0.0)
        if kills.error is not None:
            raise kills.error

    def _send(self, records: Iterable[Planned], number: int) -> None:
        """Send records, and wait until the job is done with all that was sent."""
        if not self.sender.send(records):
            raise InterruptedError("stopped while sending")
        self._sent += number
        if self.sender.failed:
            raise RuntimeError(f"the broker did not acknowledge {self.sender.failed} records")
        watch = self.cast.watch
        watch.wait_for(
            f"{self.name} to be done with {self._sent:,} records",
            lambda: done_with(watch.seen) >= self._sent,
            DRAIN_S,
            self.cast.drivers[0].alive,
        )


def done_with(seen: Sequence[dict[str, Any]]) -> int:
    """Return how many records a job is done with, by what it has announced.

    Epochs of the library tell how many records each has read, again when they are repeated. The other jobs tell the sum
    of the offsets below which they are done with everything; the topic has no gaps.
    """
    reached = max((event["reached"] for event in seen if "reached" in event), default=None)
    if reached is not None:
        return int(reached)
    read = {event["epoch"]: event["in"] for event in seen if event["event"] == "epoch" and "in" in event}
    return sum(read.values())
