"""What faults owe: stopped processes to continue, killed servers to start. Paid whichever way a run ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

SPARE_S = 30.0
"""What can undo itself does so that long after it was to be undone: a harness that is killed heals nothing."""
_Done = TypeVar("_Done")


@dataclass(eq=False)
class Debt:
    """A fault that is not undone.

    Attributes:
        what: the undoing, for people: `continue driver 4711`.
        undo: does it; safe to repeat.
        server: whether it brings a server back, which the end of the whole stack makes needless.
        since: when the fault was done (monotonic clock); None before.
        lasted_s: how long it had lasted when it was undone first; None before, and where it was not done.
    """

    what: str
    undo: Callable[[], None]
    server: bool = False
    since: float | None = field(default=None, init=False)
    lasted_s: float | None = field(default=None, init=False)

    def settle(self) -> None:
        """Take the time, and undo it."""
        # In this order: what lasted a little longer is no worse, what lasted shorter is.
        if self.since is not None and self.lasted_s is None:
            self.lasted_s = round(time.monotonic() - self.since, 3)
        self.undo()


class Healing:
    """Everything that has to be undone, at any moment of a run.

    Attributes:
        ended: set when the run ends: what lasts gives up.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.ended = threading.Event()
        self._say = say
        self._debts: list[Debt] = []
        self._lock = threading.Lock()

    def owe(self, debt: Debt) -> Debt:
        """Note it, before the fault is done: whoever is interrupted between the two undoes too much, not too little."""
        with self._lock:
            self._debts.append(debt)
        return debt

    def strike(self, debt: Debt, blow: Callable[[], _Done]) -> _Done:
        """Do what has to be undone, and return what it returns. Where it fails it is undone at once.

        Where the end of the run came before it was done, it is undone again.
        """
        self.owe(debt)
        try:
            done = blow()
        except BaseException:
            self._undo(debt)
            raise
        debt.since = time.monotonic()
        if not self._owes(debt):
            debt.settle()
        return done

    def pay(self, debt: Debt) -> None:
        """Undo it and forget it; nothing happens when that was done before."""
        if self._owes(debt):
            self._undo(debt)

    @property
    def owed(self) -> list[str]:
        """What is not undone."""
        with self._lock:
            return [debt.what for debt in self._debts]

    def close(self, *, torn_down: bool) -> None:
        """Have what lasts give up, undo what is left, the last first, and say so.

        Nothing that fails here keeps the rest from being undone.

        Args:
            torn_down: whether the stack ends now, so that no server has to be brought back.
        """
        self.ended.set()
        with self._lock:
            left, self._debts = self._debts[::-1], []
        for debt in left:
            if debt.server and torn_down:
                self._say(f"✓ not needed any more: {debt.what}; the whole stack is torn down")
                continue
            try:
                debt.settle()
            except Exception as error:
                end = "the whole stack is torn down" if torn_down else "do it by hand"
                self._say(f"✗ could not {debt.what}: {error}; {end}")
            else:
                self._say(f"✓ healed at the end of the run: {debt.what}")

    def _undo(self, debt: Debt) -> None:
        debt.settle()
        with self._lock:
            self._debts = [one for one in self._debts if one is not debt]

    def _owes(self, debt: Debt) -> bool:
        with self._lock:
            return debt in self._debts
