"""An object store in memory that lists, and that lets something happen before it answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from effectively_once.ledger.objects import Answer, Put, Request
from tests.unit.ledger.memory_store import MemoryStore


class ListedStore(MemoryStore):
    """Safe to share between threads.

    Attributes:
        before: is called with every request before it is answered, and may ask the store itself.

    """

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[Request], object] = lambda _: None
        self._lock = threading.RLock()
        self._inside = False

    def answer(self, request: Request) -> Answer:
        """Carry out one request at a time."""
        with self._lock:
            if not self._inside:
                self._inside = True
                try:
                    self.before(request)
                finally:
                    self._inside = False
            return super().answer(request)

    def names(self, prefix: str) -> Iterator[str]:
        """Yield names below a prefix, in order."""
        yield from sorted(name for name in self.objects if name.startswith(prefix))

    def break_off_after(self, puts: int) -> None:
        """Fail from the put on that comes after so many."""
        left = iter(range(puts))

        def count(request: Request) -> None:
            if isinstance(request, Put) and next(left, None) is None:
                raise ConnectionError("broken off")

        self.before = count

    def mend(self) -> None:
        """Answer again."""
        self.before = lambda _: None
