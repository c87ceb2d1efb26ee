"""Progress lines: `✓ step 12.4 s`, with how long the step took last time. Plain when nobody watches a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TextIO

HEARTBEAT_S = 30.0
WORTH_ANNOUNCING_S = 2.0

Say = Callable[[str], None]

_COLOURS = {"✓": "32", "✗": "31", "…": "2"}


def wants_colour(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Whether to colour: a terminal, and neither NO_COLOR nor CI set, nor a dumb terminal."""
    return stream.isatty() and not env.get("NO_COLOR") and not env.get("CI") and env.get("TERM") != "dumb"


class Durations:
    """How long each step took last time, in seconds; kept beside the artefact cache, lost without harm."""

    def __init__(self, path: Path) -> None:
        """`path` is a JSON file; it and its directory are made on the first record."""
        self._path = path

    def _read(self) -> dict[str, float]:
        try:
            data = json.loads(self._path.read_text())
            return {str(name): float(seconds) for name, seconds in data.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def last(self, step: str) -> float | None:
        """Seconds of the last complete run of `step`, or None."""
        return self._read().get(step)

    def record(self, step: str, seconds: float) -> None:
        """Remember it. Two processes may overwrite each other's newest entry: these are hints, not evidence."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside = self._path.with_name(f"{self._path.name}.{os.getpid()}.{threading.get_ident()}")
            beside.write_text(json.dumps({**self._read(), step: round(seconds, 1)}, indent=1, sort_keys=True))
            beside.replace(self._path)


class Console:
    """Prints steps to one stream; steps may overlap in threads, so a line is never rewritten."""

    def __init__(
        self,
        durations: Durations | None = None,
        stream: TextIO | None = None,
        env: Mapping[str, str] | None = None,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        """Without `durations` nothing is remembered; `stream` is standard error unless given."""
        self._stream = sys.stderr if stream is None else stream
        self._colour = wants_colour(self._stream, os.environ if env is None else env)
        self._durations = durations
        self._heartbeat_s = heartbeat_s
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """One line as it is."""
        with self._lock:
            print(text, file=self._stream, flush=True)

    def _mark(self, sign: str, text: str) -> None:
        self.say(f"\x1b[{_COLOURS[sign]}m{sign}\x1b[0m {text}" if self._colour else f"{sign} {text}")

    @contextlib.contextmanager
    def step(self, name: str, expected_s: float | None = None) -> Iterator[None]:
        """Time a step. A long one is announced with what it took last time (or `expected_s`), and beats while it lasts.

        An exception marks it with `✗` and passes through; only a complete step is remembered.
        """
        last = self._durations.last(name) if self._durations else None
        if last is not None and last >= WORTH_ANNOUNCING_S:
            self._mark("…", f"{name} (took {last:.0f} s last time)")
        elif last is None and expected_s is not None:
            self._mark("…", f"{name} (about {expected_s:.0f} s the first time)")
        began = time.monotonic()
        ended = threading.Event()
        beat = threading.Thread(target=self._beat, args=(name, began, ended), daemon=True)
        beat.start()
        try:
            yield
        except BaseException:
            ended.set()
            self._mark("✗", f"{name} {time.monotonic() - began:.1f} s")
            raise
        ended.set()
        took = time.monotonic() - began
        self._mark("✓", f"{name} {took:.1f} s")
        if self._durations:
            self._durations.record(name, took)

    def _beat(self, name: str, began: float, ended: threading.Event) -> None:
        while not ended.wait(self._heartbeat_s):
            self._mark("…", f"{name} {time.monotonic() - began:.0f} s so far")
