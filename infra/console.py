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
PATIENCE_S = 0.5

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
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Without `durations` nothing is remembered; `stream` is standard error unless given.

        `patience_s` is how long a step may take before it is announced, and worth remembering.
        """
        self._stream = sys.stderr if stream is None else stream
        self._colour = wants_colour(self._stream, os.environ if env is None else env)
        self._durations = durations
        self._heartbeat_s = heartbeat_s
        self._patience_s = patience_s
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """One line as it is."""
        with self._lock:
            print(text, file=self._stream, flush=True)

    def _mark(self, sign: str, text: str) -> None:
        self.say(f"\x1b[{_COLOURS[sign]}m{sign}\x1b[0m {text}" if self._colour else f"{sign} {text}")

    @contextlib.contextmanager
    def step(self, name: str, expected_s: float | None = None) -> Iterator[None]:
        """Time a step. One that does not end at once is announced with what it took last time, or with `expected_s`.

        While it lasts it shows that it lives. An exception marks it with `✗` and passes through; only a complete step
        is remembered.
        """
        began = time.monotonic()
        ended = threading.Event()
        beat = threading.Thread(target=self._beat, args=(name, self._forecast(name, expected_s), began, ended))
        beat.daemon = True
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
        # What was found ready says nothing about how long it takes when it is not.
        if self._durations and took >= self._patience_s:
            self._durations.record(name, took)

    def _forecast(self, name: str, expected_s: float | None) -> str:
        last = self._durations.last(name) if self._durations else None
        if last is not None:
            return f" (took {last:.0f} s last time)" if last >= WORTH_ANNOUNCING_S else ""
        return f" (about {expected_s:.0f} s the first time)" if expected_s else ""

    def _beat(self, name: str, forecast: str, began: float, ended: threading.Event) -> None:
        if forecast and not ended.wait(self._patience_s):
            self._mark("…", name + forecast)
        while not ended.wait(self._heartbeat_s):
            self._mark("…", f"{name} {time.monotonic() - began:.0f} s so far")
