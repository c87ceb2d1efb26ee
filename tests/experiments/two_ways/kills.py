"""Kills the process that runs an operator, while it is at work: held at a point of its turn, or of its task."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from effectively_once_jobs.two_ways.stage import TAKEN
from tests.experiments.strikes import Strikes
from tests.experiments.two_ways.plan import Part, Strike
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Holding
from tests.harness.history import History
from tests.harness.stack.processes import Supervised
from tests.harness.workload.record import Planned

HELD_S, REPLACED_S, ASK_S = 60.0, 150.0, 0.5


class OperatorKills(Strikes[Strike]):
    """Carries out the kills of one part.

    Args:
        part: of it; operators' records are counted from the moment this is made.
        strikes: in their order.
        runs: operator -> who runs its process.
        watch: what is announced.
        hold: which the processes know by their environment.
        history: where each kill is written down.
        say: told what came of it.

    """

    def __init__(
        self,
        part: Part,
        strikes: Sequence[Strike],
        runs: Mapping[int, Supervised],
        watch: Watch,
        hold: Holding,
        *,
        history: History,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(strikes, watch, hold, history=history, say=say)
        self._part, self._runs = part, runs
        self._asked = {max(one.rows, 1): threading.Event() for one in strikes}

    def run(self) -> None:
        """Carry them out."""
        try:
            super().run()
        finally:
            for asked in self._asked.values():
                asked.set()

    def gate(self, records: Iterable[Planned]) -> Iterator[Planned]:
        """Give records out; those behind a kill's number once it is settled where its process will be held.

        A process takes a burst in less time than it takes to tell a pod where to stop.

        Raises:
            TimeoutError: the operator does not take what was given out before.

        """
        for number, record in enumerate(records):
            if number in self._asked and not self._asked[number].wait(REPLACED_S):
                raise TimeoutError(f"{number} records of {self._part.name} were not taken within {REPLACED_S:.0f} s")
            yield record

    def wait_for_moment(self, strike: Strike) -> bool:
        """Wait until its operator has taken so many records."""
        return self.wait_until_counted(lambda event: event["rows"] if _of(event, strike.operator) else 0, strike.rows)

    def strike(self, strike: Strike) -> None:
        """Hold the operator where it is to be struck, and kill what runs it."""
        told = {"part": self._part.name, "target": strike.target, "operator": strike.operator, "stage": strike.stage}
        name = f"kill -9 {strike.target}, operator {strike.operator} {strike.stage}"
        self._hold.ask(strike.stage, operator=strike.operator)
        self._asked[max(strike.rows, 1)].set()
        drivers = self._runs[strike.operator]
        struck = self.kill(name, drivers, strike.target, self._await_held())
        if struck is None:
            return
        who, at = struck
        self._history.record("fault", t=at, kind="sigkill", hit=True, process_before=who, **told)
        self._watch.wait_for(
            f"operator {strike.operator} to go on after {who} was killed",
            lambda: any(_of(event, strike.operator) and event["t"] > at for event in reversed(self._watch.seen)),
            REPLACED_S,
            drivers.alive,
        )
        # Of a query that may be another task, or one that does not know yet that its driver is gone.
        self._say(f"  {name}")

    def _await_held(self) -> dict[str, Any] | None:
        deadline = time.monotonic() + HELD_S
        while time.monotonic() < deadline and not self.stop_asked.is_set():
            if (held := self._hold.held(ASK_S)) is not None:
                return held
        return None


def _of(event: Mapping[str, Any], operator: int) -> bool:
    return bool(event["event"] == TAKEN and event["operator"] == operator)
