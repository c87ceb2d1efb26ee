"""Records that are kept back at their sender: a partition's, whose leader is away, or those of a gateway offline."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from tests.harness.workload.record import Planned

Name = int | str
"""The number of a partition, or the name of a gateway."""


class HeldBack:
    """Who is held, and what waits for each, in its order; a fault holds, the sender keeps and takes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[Name] = set()
        self._waiting: dict[Name, deque[Planned]] = {}
        self._kept: dict[Name, int] = {}

    def hold(self, name: Name) -> None:
        """Keep what is sent to a partition, or by a gateway, from now on."""
        with self._lock:
            self._held.add(name)
            self._kept[name] = 0

    def let_go(self, name: Name) -> None:
        """Let these records go, those that wait first. Safe to repeat."""
        with self._lock:
            self._held.discard(name)

    def holds(self, name: Name) -> bool:
        """Whether it is held."""
        with self._lock:
            return name in self._held

    def kept(self, name: Name) -> int:
        """How many records were kept since it was held last."""
        with self._lock:
            return self._kept.get(name, 0)

    def keep(self, record: Planned, *names: Name) -> bool:
        """Keep a record if one of its names is held, or if others of it wait: they go first. Whether it was kept."""
        with self._lock:
            name = next((one for one in names if one in self._held or self._waiting.get(one)), None)
            if name is None:
                return False
            self._waiting.setdefault(name, deque()).append(record)
            self._kept[name] = self._kept.get(name, 0) + 1
            return True

    def take(self) -> Iterator[Planned]:
        """Yield the records that waited for who is held no more."""
        while (record := self._next()) is not None:
            yield record

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        with self._lock:
            return not any(self._waiting.values())

    def _next(self) -> Planned | None:
        with self._lock:
            for name, waiting in self._waiting.items():
                if waiting and name not in self._held:
                    return waiting.popleft()
        return None
