"""Notes which processes come and go while a run lasts: a witness that knows nothing of faults, nor of who injects them.

What it notes is in the history, event `process`; the judge holds the injector's word against it.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.cluster.api import ClusterError
from tests.harness.history import History

PROCESSES_S, PODS_S = 0.2, 1.0
"""Between two looks: /proc costs a millisecond, the API a request."""
WORDS = {
    "org.apache.spark.executor.CoarseGrainedExecutorBackend": "executor",
    "pyspark.daemon": "python worker",
    "kafka.Kafka": "broker",
}
PROGRAMS = {"minio": "object store", "postgres": "result store"}
"""Whose a command line is: by one of its words, or by its program."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PARENT, _STARTED, _EXIT_CODE = 1, 19, 49
"""Fields of /proc/<pid>/stat behind the name in brackets; the state is the first."""


@dataclass(frozen=True)
class Sight:
    """One process as it was seen: `who` names it, `told` is what else is known of it."""

    who: str
    told: Mapping[str, Any]
    ended: bool = False


class Witness(ABC, threading.Thread):
    """Looks again and again, and notes who is new and who is gone.

    Args:
        history: where it is noted.
        every_s: between two looks.
    """

    def __init__(self, history: History, every_s: float) -> None:
        super().__init__(name="witness", daemon=True)
        self._history, self._every_s = history, every_s
        self._over = threading.Event()
        self._alive: dict[str, int] = {}
        """Who is there -> when it was first seen."""
        self._last: dict[str, int] = {}
        self._told: set[str] = set()

    def run(self) -> None:
        """Look until `stop`; what cannot be read now is looked at again."""
        while not self._over.wait(self._every_s):
            with suppress(ClusterError, OSError):
                self.note(list(self._look()))

    def stop(self) -> None:
        """End, with a last look. Safe to repeat."""
        self._over.set()
        if self.is_alive():
            self.join()

    def note(self, sights: Iterable[Sight]) -> None:
        """Compare with the look before, and note what changed."""
        now = time.time_ns() // 1_000_000
        there: set[str] = set()
        for sight in sights:
            if sight.ended:
                self._note_gone(sight.who, now, sight.told)
                continue
            there.add(sight.who)
            # A process that was just forked has its parent's command line: the second look tells what it is.
            if sight.who in self._alive and sight.who not in self._told:
                self._note_first(sight.who, self._alive[sight.who], sight.told)
            self._alive.setdefault(sight.who, now)
            self._last[sight.who] = now
        for who in [one for one in self._alive if one not in there]:
            self._note_gone(who, now, {})

    def _note_first(self, who: str, first: int, told: Mapping[str, Any]) -> None:
        self._told.add(who)
        self._record("process", t=first, state="seen", process=who, **told)

    def _note_gone(self, who: str, now: int, told: Mapping[str, Any]) -> None:
        first = self._alive.pop(who, None)
        if first is None:
            return
        if who not in self._told:
            self._note_first(who, first, told)
        self._told.discard(who)
        self._record("process", t=now, state="gone", process=who, last=self._last.pop(who, first), **told)

    def _record(self, event: str, **fields: Any) -> None:
        # A history that was closed is that of a run that ended.
        with suppress(ValueError):
            self._history.record(event, **fields)

    @abstractmethod
    def _look(self) -> Iterable[Sight]:
        """Who is there now, and who has ended since. Raises OSError, ClusterError."""


class ProcessWitness(Witness):
    """All processes below one of this machine, by /proc; whose parent has ended is followed all the same."""

    def __init__(self, history: History, root: int | None = None, every_s: float = PROCESSES_S) -> None:
        super().__init__(history, every_s)
        self._root = os.getpid() if root is None else root
        self._booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        self._mine: dict[int, str] = {}
        self._others: dict[int, str] = {}

    def _look(self) -> Iterable[Sight]:
        pids = self._numbers()
        found: dict[int, list[str]] = {pid: stat for pid in pids if pid not in self._others and (stat := _stat(pid))}
        self._others = {pid: who for pid, who in self._others.items() if pid in pids}
        self._mine = {pid: who for pid, who in self._mine.items() if pid in found and self._who(pid, found) == who}
        fresh = {pid for pid in found if pid not in self._mine and pid != self._root}
        # Children of new ones are new too, and stand in any order.
        while born := {pid for pid in fresh if int(found[pid][_PARENT]) in (self._root, *self._mine)}:
            self._mine |= {pid: self._who(pid, found) for pid in born}
            fresh -= born
        # One whose parent was born after its place in the list was read is told apart by the next look.
        self._others |= {pid: self._who(pid, found) for pid in fresh if int(found[pid][_PARENT]) in (0, *pids)}
        for pid, who in self._mine.items():
            if found[pid][0] in "ZX":
                code = int(found[pid][_EXIT_CODE])
                yield Sight(who, {"code": -(code & 0x7F) if code & 0x7F else code >> 8}, ended=True)
            else:
                yield Sight(who, _role(pid))

    def _numbers(self) -> set[int]:
        return {int(one.name) for one in Path("/proc").iterdir() if one.name.isdecimal()}

    def _who(self, pid: int, found: Mapping[int, list[str]]) -> str:
        return f"{pid}@{self._booted_s + int(found[pid][_STARTED]) / _TICKS_PER_S:.2f}"


class PodWitness(Witness):
    """The pods of a cluster, as its API tells them: uid, container, when it started, how it ended.

    Args:
        history: where it is noted.
        read: the pods of all namespaces, as the API tells them.
        every_s: between two looks.
    """

    def __init__(
        self, history: History, read: Callable[[], Iterable[Mapping[str, Any]]], every_s: float = PODS_S
    ) -> None:
        super().__init__(history, every_s)
        self._read = read

    def _look(self) -> Iterable[Sight]:
        for pod in self._read():
            status: Mapping[str, Any] = next(iter((pod.get("status") or {}).get("containerStatuses") or []), {})
            container = str(status.get("containerID") or "").rpartition("//")[2][:12]
            if not container:
                continue
            who = f"{pod['metadata']['name']}@{pod['metadata']['uid']}/{container}"
            state = status.get("state") or {}
            ended = state.get("terminated") or {}
            restarts = {"restarts": status.get("restartCount", 0)}
            if ended:
                yield Sight(who, {**restarts, "code": ended.get("exitCode"), "reason": ended.get("reason")}, ended=True)
            else:
                yield Sight(who, {**restarts, "started": (state.get("running") or {}).get("startedAt")})


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _role(pid: int) -> dict[str, str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return {}
    roles = (*(WORDS[word] for word in words if word in WORDS), PROGRAMS.get(Path(words[0]).name))
    return {"role": roles[0]} if roles[0] is not None else {}
