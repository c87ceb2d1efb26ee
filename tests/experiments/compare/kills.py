"""Kills executors and drivers at given look-ups of a job, or at other steps, while the process that made it is held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from effectively_once_jobs.system_usage.look_up import LOOKED_UP
from infra.embedded.process import wait_for
from infra.embedded.spark import EXECUTORS
from tests.experiments.compare.plan import DRIVER, EXECUTOR, Strike
from tests.experiments.ground import Supervised
from tests.experiments.strikes import Strikes
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Holding
from tests.harness.history import History

REPLACED_S, HELD_S = 180.0, 60.0


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


def _looked_up(event: Mapping[str, Any]) -> bool:
    return bool(event["event"] == LOOKED_UP)


LOOK_UPS = Gate("look-up", _looked_up, {EXECUTOR: (LOOKED_UP, {}), DRIVER: (LOOKED_UP, {})})


class Kills(Strikes[Strike]):
    """Carries out a plan of kills, one after the other.

    When so many look-ups were announced, the next process that tells of one is held; then its executor, or the driver,
    is killed, and what it was about to do is not done. A gate may count something else and hold elsewhere.

    Args:
        strikes: their look-ups are counted from the moment this is made.
        drivers: who is killed, and started again.
        watch: what is announced.
        hold: which drivers and executors know by their environment.
        history: where each kill is written down.
        say: told what came of it.
        gate: what is counted, and where is held.

    """

    def __init__(
        self,
        strikes: Sequence[Strike],
        drivers: Supervised,
        watch: Watch,
        hold: Holding,
        *,
        history: History,
        say: Callable[[str], None],
        gate: Gate = LOOK_UPS,
    ) -> None:
        super().__init__(strikes, watch, hold)
        self._drivers, self._history, self._say, self._gate = drivers, history, say, gate

    def reached(self, strike: Strike) -> bool:
        """Wait until so many were announced; False when this is to stop before."""
        told = 0

        def nth(event: dict[str, Any]) -> bool:
            nonlocal told
            told += int(self._gate.counts(event))
            return told >= strike.call

        return self._watch.next_step(nth, self._from, self.stop_asked) is not None

    def strike(self, strike: Strike) -> None:
        point, where = self._gate.points[strike.target]
        at_which = f"at {self._gate.says} {strike.call}"
        self._hold.ask(point, **where)
        held = self._hold.held(HELD_S)
        if held is None:
            self._say(f"✗ kill -9 {strike.target} {at_which}: nobody came by {point} any more")
            return
        running = self._watch.running
        try:
            who, at = self._drivers.kill_driver() if strike.target == DRIVER else self._drivers.kill_executor(held)
        except NoProcessError as gone:
            self._say(f"✗ kill -9 {strike.target} {at_which}: {gone}")
            return
        finally:
            self._hold.release()
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
