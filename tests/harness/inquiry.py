"""Asks the product while a run goes on how complete its results are, and writes down what it says."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from infra.embedded.process import Child
from tests.harness.asked import Certificate, Metric, Warned, path_of, write
from tests.harness.run_directory import LinesWriter

LOOK_S, ASK_S = 1.0, 10.0
"""Between two readings of the metric, and two windows: each of these takes an interpreter for a second or two."""
COMMAND_S = 60.0
OPEN_EVERY = 4
"""So often one is asked for that is open."""
WARNING = "a source is not waited for any more"
"""What a driver logs of one that it lets go."""
Released = tuple[str, ...]
Tail = Sequence[Mapping[str, Any]]


@dataclass
class Complete:
    """The command `effectively_once complete --window`, as an operator gives it.

    Attributes:
        settings: the pipeline's file.
        packages: where Python finds the product, and the job that the settings name.
        log: what it says; only the last is kept.
    """

    settings: Path
    packages: str
    log: Path

    def __call__(self, window: int) -> Certificate:
        """Ask for one window."""
        self.log.unlink(missing_ok=True)
        at = time.time_ns() // 1_000_000
        words = [sys.executable, "-m", "effectively_once", "complete", self.settings, "--window", window, "--json"]
        child = Child(
            "complete", [str(one) for one in words], self.log, cwd=self.log.parent, env={"PYTHONPATH": self.packages}
        )
        code = child.status() if child.wait(COMMAND_S) else None
        child.kill()
        said = self.log.read_text(errors="replace")
        says = document_in(said)
        lines = said.strip().splitlines()
        return Certificate(at, window, code, says, "" if says is not None else "".join(lines[-1:])[:240])


def document_in(said: str) -> dict[str, Any] | None:
    """Return the JSON document over several lines that a command said among others; None where there is none."""
    begin, end = said.find("{\n"), said.rfind("\n}")
    with suppress(orjson.JSONDecodeError):
        found = orjson.loads(said[begin : end + 2]) if 0 <= begin < end else None
        return found if isinstance(found, dict) else None
    return None


def find_closed(tail: Tail, window_ms: int, lateness_ms: int) -> Iterator[tuple[int, Released]]:
    """Yield windows that the last epochs closed, the newest first, and who was not waited for."""
    for before, record in reversed([*pairwise(tail)]):
        reached, known = record["watermark_ms"], before["watermark_ms"]
        if reached is None:
            continue
        newest = (reached - lateness_ms) // window_ms * window_ms - window_ms
        # Of the first that are closed none is known to be the oldest: one is enough.
        oldest = newest if known is None else (known - lateness_ms) // window_ms * window_ms
        for start in range(newest, oldest - 1, -window_ms):
            yield start, tuple((record.get("clock") or {}).get("released", ()))


class Inquiry:
    """Reads the driver's metric, and asks for windows, one after the other, in a thread of its own.

    A window that was closed without a source nobody was asked about yet comes first. At the end it notes what the
    drivers' logs warned of: of one that was killed its log is there. The log of a driver in a pod is named by the pod.

    Args:
        run: the run directory.
        tail: the last records of the chain as its head has them; an error is no answer.
        ask: asks for one window.
        metric: reads that of the driver that runs.
        windows: length of windows and allowed lateness, in ms.
    """

    def __init__(
        self,
        run: Path,
        tail: Callable[[], Tail],
        ask: Callable[[int], Certificate],
        metric: Callable[[], Metric | None],
        windows: tuple[int, int],
    ) -> None:
        self._run, self._tail, self._ask, self._metric, self._windows = run, tail, ask, metric, windows
        self._asked: set[int] = set()
        self._without: set[Released] = set()
        self._read: Metric | None = None
        self._next_s, self._number = 0.0, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go, name="inquiry", daemon=True)
        self._lines = LinesWriter(path_of(run))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        for log in sorted((self._run / "logs").glob("*driver-*.log")):
            for warned in warnings_in(log):
                write(self._lines, warned)
        self._lines.close(complete=error is None)

    def look(self) -> None:
        """Read the metric, and ask for a window if it is time."""
        read = self._metric()
        if read is not None and (self._read is None or read[1:] != self._read[1:]):
            write(self._lines, read)
            self._read = read
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + ASK_S
            self._certify()

    def _go(self) -> None:
        while not self._over.wait(LOOK_S):
            # A store that is away says nothing now, and later it does.
            with suppress(Exception):
                self.look()

    def _certify(self) -> None:
        """Ask for a window that was closed, or for the one after it, which is open."""
        fresh = [one for one in find_closed(self._tail(), *self._windows) if one[0] not in self._asked]
        if not fresh:
            return
        new = next((one for one in fresh if one[1] not in self._without), None)
        window, without = new or fresh[0]
        self._number += 1
        if new is None and self._number % OPEN_EVERY == 0:
            write(self._lines, self._ask(window + self._windows[0]))
            return
        found = self._ask(window)
        write(self._lines, found)
        if found.says is not None:
            self._asked.add(window)
            self._without.add(without)


def warnings_in(log: Path) -> Iterator[Warned]:
    """Yield what a driver's log warns of, of sources that it let go."""
    for line in log.read_bytes().splitlines():
        if WARNING.encode() not in line:
            continue
        with suppress(orjson.JSONDecodeError, KeyError):
            # In a pod what others write may stand before it.
            said = orjson.loads(line[line.find(b"{") :])
            if said["event"] == WARNING and said["level"] == "warning":
                yield Warned(log.stem, said["source"], said["time_ms"])
