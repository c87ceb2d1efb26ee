"""CPU seconds of families of processes, between two moments of a run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

import numpy as np
import psutil

from tests.bench.errors import BenchError
from tests.bench.looking import family, look_regularly

LOOK_EVERY_S = 1.0
Identity = tuple[int, float]
"""Process id and when it was started: ids are used again."""


class Spent:
    """CPU seconds, user and system, that families of processes have taken so far, at the moments it was looked."""

    def __init__(self) -> None:
        self._processes: dict[str, dict[Identity, float]] = {}
        self._moments: list[tuple[float, dict[str, float]]] = []

    def look(self, t_ms: float, families: Mapping[str, Iterable[tuple[Identity, float]]]) -> None:
        """Take note of a moment (ms since 1970). What a process has taken that is gone still counts."""
        for name, processes in families.items():
            self._processes.setdefault(name, {}).update(processes)
        self._moments.append((t_ms, {name: sum(each.values()) for name, each in self._processes.items()}))

    def between(self, began_ms: float, ended_ms: float) -> dict[str, float]:
        """Return the seconds of each family from one moment to another, by the straight line between two looks.

        Raises:
            BenchError: nobody looked before the one, or after the other.

        """
        if not self._moments or began_ms < self._moments[0][0] or ended_ms > self._moments[-1][0]:
            raise BenchError("CPU time was not looked at from the warm-up to the end: measure more records")
        at_ms = [t_ms for t_ms, _ in self._moments]
        taken = {name: [seconds[name] for _, seconds in self._moments] for name in self._processes}
        spent = {name: np.interp([began_ms, ended_ms], at_ms, seconds) for name, seconds in taken.items()}
        return {name: float(ended - began) for name, (began, ended) in spent.items()}


@contextmanager
def watch_cpu(pids: Mapping[str, int]) -> Iterator[Spent]:
    """Look at families, each by the process id of its eldest, for the time of the block."""
    spent = Spent()

    def look() -> None:
        spent.look(time.time() * 1000, {name: [*_seconds(pid)] for name, pid in pids.items()})

    look()
    with look_regularly(look, LOOK_EVERY_S):
        yield spent


def _seconds(pid: int) -> Iterator[tuple[Identity, float]]:
    for one in family(pid):
        with suppress(psutil.Error):
            taken = one.cpu_times()
            yield (one.pid, one.create_time()), taken.user + taken.system
