"""What faults owe: stopped processes to continue, killed servers to start. Paid whichever way a run ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Debt:
    """A fault that is not undone.

    Attributes:
        what: the undoing, for people: `continue driver 4711`.
        undo: does it; safe to repeat.
        server: whether it brings a server back, which the end of the whole stack makes needless.
    """

    what: str
    undo: Callable[[], None]
    server: bool = False


class Healing:
    """Everything that has to be undone, at any moment of a run."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._debts: list[Debt] = []
        self._lock = threading.Lock()

    def owe(self, debt: Debt) -> Debt:
        """Note it, before the fault is done: whoever is interrupted between the two undoes too much, not too little."""
        with self._lock:
            self._debts.append(debt)
        return debt

    def confirm(self, debt: Debt) -> None:
        """Know that its fault was done. Where the end of the run came between the two, it is undone again."""
        with self._lock:
            if debt in self._debts:
                return
        debt.undo()

    def pay(self, debt: Debt) -> None:
        """Undo it and forget it; nothing happens when that was done before."""
        with self._lock:
            if debt not in self._debts:
                return
        debt.undo()
        with self._lock:
            self._debts.remove(debt)

    @property
    def owed(self) -> list[str]:
        """What is not undone."""
        with self._lock:
            return [debt.what for debt in self._debts]

    def close(self, *, torn_down: bool) -> None:
        """Undo what is left, the last first, and say so. Nothing that fails here keeps the rest from being undone.

        Args:
            torn_down: whether the stack ends now, so that no server has to be brought back.
        """
        with self._lock:
            left, self._debts = self._debts[::-1], []
        for debt in left:
            if debt.server and torn_down:
                self._say(f"✓ not needed any more: {debt.what}; the whole stack is torn down")
                continue
            try:
                debt.undo()
            except Exception as error:
                end = "the whole stack is torn down" if torn_down else "do it by hand"
                self._say(f"✗ could not {debt.what}: {error}; {end}")
            else:
                self._say(f"✓ healed at the end of the run: {debt.what}")
