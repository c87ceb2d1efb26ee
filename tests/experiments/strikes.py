"""Kills that are planned beforehand, carried out one after the other in a thread beside whoever sends."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Holding
from tests.harness.history import History
from tests.harness.stack.processes import Supervised

EXECUTOR, DRIVER = "executor", "driver"
Planned = TypeVar("Planned")


class Strikes(threading.Thread, ABC, Generic[Planned]):
    """Waits for each one's moment, and strikes.

    Args:
        strikes: their moments are reckoned from when this is made.
        watch: what is announced.
        hold: which the processes know by their environment; nobody is held when this has ended.
        history: where each kill is written down.
        say: told what came of it.

    Attributes:
        stop_asked: set from outside to end early.
        error: what went wrong, for the arm to raise.

    """

    def __init__(
        self,
        strikes: Sequence[Planned],
        watch: Watch,
        hold: Holding,
        *,
        history: History,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(name="kills", daemon=True)
        self._strikes, self._watch, self._hold, self._history, self._say = strikes, watch, hold, history, say
        with watch.changed:
            self._from = len(watch.seen)
        self.stop_asked = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Carry them out."""
        try:
            for strike in self._strikes:
                if not self.wait_for_moment(strike):
                    return
                self.strike(strike)
        except BaseException as error:
            self.error = error
        finally:
            self._hold.release()

    @abstractmethod
    def wait_for_moment(self, strike: Planned) -> bool:
        """Wait for its moment; False when `stop_asked` comes before."""

    @abstractmethod
    def strike(self, strike: Planned) -> None:
        """Carry it out, and write down what came of it."""

    def wait_until_counted(self, what: Callable[[Mapping[str, Any]], int], least: int) -> bool:
        """Wait until announcements come to so many of something; False when `stop_asked` comes before."""
        found = 0

        def enough(event: dict[str, Any]) -> bool:
            nonlocal found
            found += what(event)
            return found >= least

        return self._watch.next_step(enough, self._from, self.stop_asked) is not None

    def kill(self, name: str, drivers: Supervised, target: str, held: Mapping[str, Any] | None) -> Struck | None:
        """Kill the executor that is held, or the driver, and let go of who is held; None where nobody was there."""
        if held is None:
            self._say(f"✗ {name}: nobody came there any more")
            return None
        try:
            return drivers.kill_executor(held) if target == EXECUTOR else drivers.kill_driver()
        except NoProcessError as gone:
            self._say(f"✗ {name}: {gone}")
            return None
        finally:
            self._hold.release()

    def end(self) -> None:
        """Ask it to end, wait until it has, and raise what went wrong."""
        self.stop_asked.set()
        self.join()
        if self.error is not None:
            raise self.error
