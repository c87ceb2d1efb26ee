"""Processor time of processes and everything below them, also of those that have ended meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import psutil

from infra.embedded.process import descendants

EVERY_S = 0.25


class Cpu:
    """Asks every quarter of a second, so of a process that was killed less than that is missing."""

    def __init__(self, roots: Callable[[], Iterable[int | None]]) -> None:
        """`roots` gives the processes that run now, by number; None stands for one that does not."""
        self._roots = roots
        self._seen: dict[tuple[int, float], float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="cpu", daemon=True)

    def __enter__(self) -> Cpu:
        """Begin to ask."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()

    def seconds(self) -> float:
        """All of it so far."""
        self._ask()
        return sum(self._seen.values())

    def _follow(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._ask()

    def _ask(self) -> None:
        for pid in self._roots():
            if pid is not None:
                self._ask_family(pid)

    def _ask_family(self, pid: int) -> None:
        try:
            family = [psutil.Process(pid), *descendants(pid)]
        except psutil.NoSuchProcess:
            return
        for one in family:
            try:
                with one.oneshot():
                    times, who = one.cpu_times(), (one.pid, one.create_time())
            except psutil.NoSuchProcess:
                continue
            self._seen[who] = max(times.user + times.system, self._seen.get(who, 0.0))
