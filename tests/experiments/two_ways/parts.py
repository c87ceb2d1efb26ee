"""The parts of one arm, one after the other: records in, kills meanwhile, all of it in the output."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from infra.console import Console
from infra.embedded.process import ServerError
from tests.experiments.ground import Cast, Supervised
from tests.experiments.pace import paced
from tests.experiments.two_ways.kills import OperatorKills
from tests.experiments.two_ways.outputs import Outputs
from tests.experiments.two_ways.plan import PACED, Arm, Part, Plan
from tests.harness.history import History
from tests.harness.workload.record import Planned
from tests.harness.workload.sender import Sender

DRAIN_S, ASK_S = 300.0, 0.1


@dataclass
class Parts:
    """Plays them on processes that run.

    Attributes:
        cast: a driver for the query, or one for each operator.
        cpu_s: processor time by part, filled in as it goes where it is measured.

    """

    pipeline: str
    arm: Arm
    plan: Plan
    sender: Sender
    cast: Cast
    history: History
    outputs: Outputs
    console: Console
    stop: threading.Event
    cpu_s: dict[str, float]
    _sent: int = field(default=0, init=False)

    def go(self) -> None:
        """Play them.

        Raises:
            ServerError: a process does not come up any more.
            TimeoutError: records are not in the output in time.
            WaitTimedOutError: an operator that was killed does not go on.

        """
        parts = self.plan.parts(self.arm)
        stream = self.plan.stream(parts[-1].numbers.stop)
        for part in parts:
            self.history.record("phase", phase=part.name)
            began_s = self.cast.cpu_s()
            with self.console.step(f"{self.arm.name}: {len(part.numbers):,} records, {part.kind}, {part.kills} kills"):
                self._part(part, islice(stream, len(part.numbers)))
            if began_s is not None:
                self.cpu_s[part.name] = round((self.cast.cpu_s() or 0.0) - began_s, 2)
        self.history.record("phase", phase="end")

    def _part(self, part: Part, records: Iterable[Planned]) -> None:
        drivers = self.cast.drivers
        runs = {number: drivers[number % len(drivers)] for number in range(self.arm.operators)}
        kills = OperatorKills(
            part,
            self.plan.strikes(self.arm, part),
            runs,
            self.cast.watch,
            self.cast.hold,
            history=self.history,
            say=self.console.say,
        )
        kills.start()
        try:
            self._send(part, paced(records, self.plan.pace, self.stop) if part.kind == PACED else kills.gated(records))
        finally:
            kills.ended()

    def _send(self, part: Part, records: Iterable[Planned]) -> None:
        """Send records, and wait until all that was sent is in the output."""
        if not self.sender.send(records):
            raise InterruptedError("stopped while sending")
        self._sent += len(part.numbers)
        if self.sender.failed:
            raise RuntimeError(f"the broker did not acknowledge {self.sender.failed} records")
        deadline = time.monotonic() + DRAIN_S
        while (there := self.outputs.count(self.pipeline)) < self._sent:
            told = f"{there:,} of {self._sent:,} records are in the output"
            if (words := dead(self.cast.drivers)) is not None:
                raise ServerError(f"{told}: {words}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{told} after {DRAIN_S:.0f} s")
            if self.stop.wait(ASK_S):
                raise InterruptedError(told)


def dead(drivers: Iterable[Supervised]) -> str | None:
    """Last words of the first that does not run and is not started again; None while all do."""
    return next((words for one in drivers if (words := one.alive()) is not None), None)
