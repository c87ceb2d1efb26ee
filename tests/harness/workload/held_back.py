"""Partitions whose records are kept back at their sender: their leader is away, or the gateway that has them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from tests.harness.workload.record import Planned


class HeldBack:
    """Which partitions are held, and what waits for each, in its order; a fault holds, the sender keeps and takes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[int] = set()
        self._waiting: dict[int, deque[Planned]] = {}
        self._kept: dict[int, int] = {}

    def hold(self, partition: int) -> None:
        """Keep what is sent to a partition from now on."""
        with self._lock:
            self._held.add(partition)
            self._kept[partition] = 0

    def let_go(self, partition: int) -> None:
        """Let the partition's records go, those that wait first. Safe to repeat."""
        with self._lock:
            self._held.discard(partition)

    def kept(self, partition: int) -> int:
        """How many records of a partition were kept since it was held last."""
        with self._lock:
            return self._kept.get(partition, 0)

    def keep(self, record: Planned, partition: int) -> bool:
        """Keep a record if its partition is held, or if others of it wait: they go first. Whether it was kept."""
        with self._lock:
            if partition not in self._held and not self._waiting.get(partition):
                return False
            self._waiting.setdefault(partition, deque()).append(record)
            self._kept[partition] = self._kept.get(partition, 0) + 1
            return True

    def take(self) -> Iterator[Planned]:
        """Yield the records that waited for partitions which are held no more."""
        while (record := self._next()) is not None:
            yield record

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        with self._lock:
            return not any(self._waiting.values())

    def _next(self) -> Planned | None:
        with self._lock:
            for partition, waiting in self._waiting.items():
                if waiting and partition not in self._held:
                    return waiting.popleft()
        return None
