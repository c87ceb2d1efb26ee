"""Kills executors at given look-ups of a pipeline: the one that made the look-up, at the moment it tells of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from effectively_once_jobs.system_usage.look_up import LOOKED_UP
from infra.embedded.process import wait_for
from infra.embedded.spark import EXECUTORS
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.embedded import ProcessDrivers
from tests.harness.adapters.events import Watch
from tests.harness.history import History

REPLACED_S = 120.0
WAIT_S = 0.5


class Kills(threading.Thread):
    """Carries out a plan of kills, each once its look-up is announced and the executors are as many as they should be.

    Args:
        calls: look-ups, counted from the moment this is made.
        drivers: whose executors are killed.
        watch: what is announced.
        history: where each kill is written down.
        say: told what came of it.

    """

    def __init__(
        self, calls: Sequence[int], drivers: ProcessDrivers, watch: Watch, history: History, say: Callable[[str], None]
    ) -> None:
        super().__init__(name="kills", daemon=True)
        self._calls, self._drivers, self._watch, self._history, self._say = calls, drivers, watch, history, say
        with watch.changed:
            self._from = len(watch.seen)
        self.stop_asked = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Kill; what goes wrong is kept for the arm to raise."""
        try:
            for call in self._calls:
                while not self.stop_asked.is_set() and not self._once(call):
                    pass
        except BaseException as error:
            self.error = error

    def _once(self, call: int) -> bool:
        """One try; False when the executor was gone already."""
        with self._watch.changed:
            armed = len(self._watch.seen)
        event = self._next(call, armed)
        if event is None:
            return False
        running = self._running()
        try:
            who, at = self._drivers.kill_executor(event)
        except NoProcessError:
            return False
        hit = running is not None
        wait_for(f"what replaces executor {who}", REPLACED_S, lambda: self._replaced(who))
        recovered_s = round(time.time() - at / 1000, 3)
        self._history.record(
            "fault", t=at, kind="sigkill", target="executor", signal="SIGKILL", epoch=running, phase=LOOKED_UP,
            call=call, injected_at=at, process_before=who, recovered_s=recovered_s, hit=hit,
        )  # fmt: skip
        self._say(f"  kill -9 executor {who.partition('@')[0]} at look-up {call}: replaced after {recovered_s} s")
        return True

    def _running(self) -> int | None:
        """The newest batch that was begun and has not been announced as ended, which may come after the next began."""
        with self._watch.changed:
            told = [event for event in self._watch.seen if event["event"] == "epoch"]
        ended = {event["epoch"] for event in told if event["state"] == "published"}
        return max((event["epoch"] for event in told if event["epoch"] not in ended), default=None)

    def _replaced(self, who: str) -> bool:
        alive = self._drivers.executors()
        return who not in alive and len(alive) >= EXECUTORS

    def _next(self, call: int, armed: int) -> dict[str, Any] | None:
        """The announcement of that look-up, or of the first one after this was armed; None when it is to stop."""
        number, begin = 0, self._from
        while not self.stop_asked.is_set():
            with self._watch.changed:
                for at in range(begin, len(self._watch.seen)):
                    event = self._watch.seen[at]
                    if event["event"] != LOOKED_UP:
                        continue
                    number += 1
                    if number >= call and at >= armed:
                        return event
                begin = len(self._watch.seen)
                self._watch.changed.wait(WAIT_S)
        return None
