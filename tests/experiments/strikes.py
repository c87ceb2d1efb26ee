"""Kills that are planned beforehand, carried out one after the other in a thread beside whoever sends."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Holding

Planned = TypeVar("Planned")


class Strikes(threading.Thread, ABC, Generic[Planned]):
    """Waits for each one's moment, and strikes.

    Args:
        strikes: their moments are reckoned from when this is made.
        watch: what is announced.
        hold: which the processes know by their environment; nobody is held when this has ended.

    Attributes:
        stop_asked: set from outside to end early.
        error: what went wrong, for the arm to raise.

    """

    def __init__(self, strikes: Sequence[Planned], watch: Watch, hold: Holding) -> None:
        super().__init__(name="kills", daemon=True)
        self._strikes, self._watch, self._hold = strikes, watch, hold
        with watch.changed:
            self._from = len(watch.seen)
        self.stop_asked = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Carry them out."""
        try:
            for strike in self._strikes:
                if not self.reached(strike):
                    return
                self.strike(strike)
        except BaseException as error:
            self.error = error
        finally:
            self._hold.release()

    @abstractmethod
    def reached(self, strike: Planned) -> bool:
        """Wait for its moment; False when `stop_asked` comes before."""

    @abstractmethod
    def strike(self, strike: Planned) -> None:
        """Carry it out, and write down what came of it."""

    def ended(self) -> None:
        """Ask it to end, wait until it has, and raise what went wrong."""
        self.stop_asked.set()
        self.join()
        if self.error is not None:
            raise self.error
