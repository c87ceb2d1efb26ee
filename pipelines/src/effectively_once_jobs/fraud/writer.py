"""Stores what the aggregator decides, in a thread of its own: no deadline waits for the result store.

While the store is down everything is held and tried again; the aggregator bounds how much that is.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from effectively_once.progress import announce
from effectively_once_jobs.fraud.decision import Decision
from effectively_once_jobs.fraud.store import ResultStore, Stored, StoreDownError
from effectively_once_jobs.fraud.transaction import Refusal

IDLE_S, AGAIN_S, CARDS_S = 0.2, 0.1, 10.0
PORTION = 500
"""Rows of one statement at most."""


class Writer(threading.Thread):
    """Writes until it is told to end.

    Args:
        store: of the results; this thread's alone from now on.
        told: called for every portion that is stored, from this thread.

    Attributes:
        cards: those that the store knew when it last knew any; None before that.
        failed: what ended the thread, other than `end`.

    """

    def __init__(self, store: ResultStore, told: Callable[[list[Decision | Refusal], Stored], None]) -> None:
        super().__init__(name="writer", daemon=True)
        self._store, self._told = store, told
        self._given: queue.SimpleQueue[Decision | Refusal] = queue.SimpleQueue()
        self._ending = threading.Event()
        self._down_since: float | None = None
        self._asked_s = -CARDS_S
        self.cards: frozenset[str] | None = None
        self.failed: BaseException | None = None

    def give(self, one: Decision | Refusal) -> None:
        """Have it stored."""
        self._given.put(one)

    def end(self) -> None:
        """End after the portion that is under way."""
        self._ending.set()

    def run(self) -> None:
        """Store portions; a store that is down is tried again."""
        held: list[Decision | Refusal] = []
        try:
            while not self._ending.is_set():
                held = held or self._portion()
                if self._try_to_store(held):
                    held = []
        except BaseException as error:
            self.failed = error
        finally:
            self._store.close()

    def _portion(self) -> list[Decision | Refusal]:
        found: list[Decision | Refusal] = []
        with suppress(queue.Empty):
            found.append(self._given.get(timeout=IDLE_S))
            while len(found) < PORTION:
                found.append(self._given.get_nowait())
        return found

    def _try_to_store(self, held: list[Decision | Refusal]) -> bool:
        """Store a portion, and ask for the cards now and then; False when the store is down."""
        try:
            if self.cards is None or (not held and time.monotonic() - self._asked_s > CARDS_S):
                # None at all is a table that is being filled, or put back: every record would be refused for good.
                self.cards, self._asked_s = self._store.cards() or self.cards, time.monotonic()
            if held:
                decisions = [one for one in held if isinstance(one, Decision)]
                refusals = [one for one in held if isinstance(one, Refusal)]
                stored = self._store.put(decisions, refusals)
        except StoreDownError as error:
            if self._down_since is None:
                self._down_since = time.monotonic()
                announce("role", role="aggregator", state="holding", says=str(error))
            self._ending.wait(AGAIN_S)
            return False
        if self._down_since is not None:
            announce("role", role="aggregator", state="storing", down_s=round(time.monotonic() - self._down_since, 3))
            self._down_since = None
        if held:
            self._told(held, stored)
        return True
