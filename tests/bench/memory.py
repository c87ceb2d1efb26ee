"""Memory of a driver and of all it has started, by what they are: the largest that was seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil

from infra.embedded.spark import EXECUTOR_CLASS
from tests.bench.looking import family, look_regularly

DRIVER, EXECUTORS, WORKERS, ALL = "driver", "executors", "Python workers", "all"
ROLES = (DRIVER, EXECUTORS, WORKERS, ALL)
LOOK_EVERY_S = 0.2
_WORKER = "pyspark.daemon"
_MIB = 2**20


def role_of(command: Sequence[str]) -> str:
    """Tell what a process is by its command line: the driver's Python and JVM are one."""
    if any(EXECUTOR_CLASS in word for word in command):
        return EXECUTORS
    return WORKERS if any(_WORKER in word for word in command) else DRIVER


class Peaks:
    """The largest memory (resident set) of each role, and of all together, at one moment."""

    def __init__(self) -> None:
        self._bytes = dict.fromkeys(ROLES, 0)

    def look(self, processes: Iterable[tuple[Sequence[str], int]]) -> None:
        """Take note of all processes of a moment: command line, and bytes."""
        now = dict.fromkeys(ROLES, 0)
        for command, size in processes:
            now[role_of(command)] += size
            now[ALL] += size
        self._bytes = {role: max(size, now[role]) for role, size in self._bytes.items()}

    @property
    def mib(self) -> dict[str, float]:
        """In MiB, by role."""
        return {role: round(size / _MIB, 1) for role, size in self._bytes.items()}


@contextmanager
def watch_memory(pid: int) -> Iterator[Peaks]:
    """Look at a process and all below it for the time of the block.

    Pages that forked workers share count for each of them: so they do for whoever kills for memory by process.
    """
    peaks = Peaks()
    with look_regularly(lambda: peaks.look(_sizes(pid)), LOOK_EVERY_S):
        yield peaks


def _sizes(pid: int) -> Iterator[tuple[Sequence[str], int]]:
    for one in family(pid):
        with suppress(psutil.Error):
            # The size first: a command line that cannot be read any more belongs to one that has ended.
            size = one.memory_info().rss
            yield one.cmdline(), size
