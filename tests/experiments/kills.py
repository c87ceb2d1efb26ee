"""Kills executors and drivers at given look-ups of a job, or at other steps, while the process that made it is held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.embedded.process import wait_for
from infra.embedded.spark import EXECUTORS
from tests.experiments.strikes import Strikes
from tests.harness.history import History
from tests.harness.stack.processes import Processes

REPLACED_S, HELD_S = 180.0, 60.0


@dataclass(frozen=True)
class Strike:
    """A kill: whom, and at the how manieth of what is counted."""

    target: str
    call: int


@dataclass(frozen=True)
class Gate:
    """What strikes are counted by, and where who is to be killed, or its driver, is held.

    Attributes:
        says: what is counted, in a word.
        counts: whether an announcement is one of it.
        points: target -> point of the protocol, and which of its passings (`Hold.ask`).

    """

    says: str
    counts: Callable[[Mapping[str, Any]], bool]
    points: Mapping[str, tuple[str, Mapping[str, Any]]]


class Kills(Strikes[Strike]):
    """Carries out a plan of kills, one after the other.

    When so many of what the gate counts were announced, the next process that comes by its point is held; then its
    executor, or the driver, is killed, and what it was about to do is not done.

    Args:
        strikes: counted from the moment this is made.
        processes: whose driver, or one of its executors, is killed, and started again.
        gate: what is counted, and where is held.
        history: where each kill is written down.
        say: told what came of it.

    """

    def __init__(
        self,
        strikes: Sequence[Strike],
        processes: Processes,
        gate: Gate,
        *,
        history: History,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(strikes, processes.watch, processes.hold, history=history, say=say)
        (self._drivers,), self._gate = processes.drivers, gate

    def wait_for_moment(self, strike: Strike) -> bool:
        """Wait until so many were announced; False when this is to stop before."""
        return self.wait_until_counted(self._gate.counts, strike.call)

    def strike(self, strike: Strike) -> None:
        point, where = self._gate.points[strike.target]
        self._hold.ask(point, **where)
        held, running = self._hold.held(HELD_S), self._watch.running
        at_which = f"at {self._gate.says} {strike.call}"
        struck = self.kill(f"kill -9 {strike.target} {at_which}, {point}", self._drivers, strike.target, held)
        if struck is None:
            return
        who, at = struck
        ended: list[int] = []

        def recovered() -> bool:
            with self._watch.changed:
                ended[:] = [
                    event["t"]
                    for event in self._watch.seen
                    if event["event"] == "epoch" and event["state"] == "published" and event["t"] > at
                ]
            return bool(ended) and len(self._drivers.executors()) >= EXECUTORS

        wait_for(f"a batch after {strike.target} {who} was killed, and all executors", REPLACED_S, recovered)
        recovered_s = round((ended[0] - at) / 1000, 3)
        self._history.record(
            "fault",
            t=at,
            kind="sigkill",
            target=strike.target,
            signal="SIGKILL",
            epoch=running,
            phase=point,
            call=strike.call,
            injected_at=at,
            process_before=who,
            recovered_s=recovered_s,
            hit=running is not None,
        )
        name = f"{strike.target} {who.partition('@')[0]}"
        self._say(f"  kill -9 {name} {at_which}: next batch done after {recovered_s} s")
