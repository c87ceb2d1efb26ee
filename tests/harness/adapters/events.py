"""What the pipeline announces (effectively_once.progress): read as the file grows, kept in the history, waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from tests.harness.history import History

POLL_S, ALIVE_S = 0.004, 0.5
"""A step of an epoch takes some 10 ms; a kill that is gated on it has to come sooner."""
AROUND_MS = 30_000
"""An announcement is off by a step of the clock when it is off by that much and at most so much more or less."""


class WaitTimedOutError(Exception):
    """A condition did not come true in time; the message says which, and what was seen last."""


class Watch:
    """Follows the file of announcements in a thread; `seen`, `running`, `last_published` are read under `changed`."""

    def __init__(self, path: Path, history: History) -> None:
        self.path, self._history = path, history
        self.changed = threading.Condition()
        self.seen: list[dict[str, Any]] = []
        self.running: int | None = None
        self.last_published = -1
        self.torn: str | None = None
        self._steps_ms: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="watch", daemon=True)

    def start(self) -> None:
        """Begin to follow; the file need not exist yet."""
        self.path.touch()
        self._thread.start()

    def stop(self) -> None:
        """Read what is there and end."""
        self._stop.set()
        self._thread.join()

    def wait_for(self, what: str, holds: Callable[[], bool], timeout_s: float, alive: Callable[[], str | None]) -> None:
        """Wait until `holds()`; it is asked again after every announcement and twice a second.

        Args:
            what: names the condition in messages.
            holds: the condition; called with `changed` held.
            timeout_s: bound of the wait.
            alive: None while the pipeline runs, else its last words: the wait then ends at once.

        Raises:
            WaitTimedOutError: with what was seen last.
        """
        deadline = time.monotonic() + timeout_s
        with self.changed:
            while not holds():
                dead = self.torn or alive()
                if dead is not None:
                    raise WaitTimedOutError(f"while waiting for {what}: {dead}")
                if time.monotonic() > deadline:
                    last = self.seen[-1] if self.seen else "nothing"
                    raise WaitTimedOutError(f"{what} did not come within {timeout_s:.0f} s; last announcement: {last}")
                self.changed.wait(ALIVE_S)

    def next_step(
        self, matches: Callable[[dict[str, Any]], bool], after: int, stop: threading.Event
    ) -> dict[str, Any] | None:
        """The first announcement from number `after` on that matches; None when `stop` is set before."""
        at = after
        while not stop.is_set():
            with self.changed:
                while at < len(self.seen):
                    if matches(self.seen[at]):
                        return self.seen[at]
                    at += 1
                self.changed.wait(0.05)
        return None

    def find_announced(self, event: str, since: int, **fields: Any) -> list[dict[str, Any]]:
        """What was announced of one sort from a moment on (ms), with these fields."""
        with self.changed:
            return [
                one
                for one in self.seen
                if one["event"] == event
                and one["t"] >= since
                and all(one.get(name) == value for name, value in fields.items())
            ]

    def steps_after(self, event: Mapping[str, Any], since: int) -> list[dict[str, Any]]:
        """Steps from a moment on of the shard and epoch of `event`, or a later one; of any shard if it names none."""
        shard = {"shard": event["shard"]} if "shard" in event else {}
        return [one for one in self.find_announced("step", since, **shard) if one["epoch"] >= event["epoch"]]

    def note_step(self, step_ms: int) -> None:
        """Take note that the clock of who announces is being moved by `step_ms`.

        From now on an announcement that is off by it gets the time at which it was read as `t`, for whoever reckons
        with times here and in the history; `told_t` is then what it said itself.
        """
        with self.changed:
            self._steps_ms.add(step_ms)

    def _follow(self) -> None:
        rest = b""
        with self.path.open("rb") as file:
            while True:
                ending = self._stop.is_set()
                chunk = file.read()
                if chunk:
                    *lines, rest = (rest + chunk).split(b"\n")
                    try:
                        self._take([orjson.loads(line) for line in lines if line])
                    except orjson.JSONDecodeError as error:
                        self.torn = f"{self.path} holds a line that is no announcement: {error}"
                        return
                elif ending:
                    return
                else:
                    time.sleep(POLL_S)

    def _take(self, events: list[dict[str, Any]]) -> None:
        events = [self._by_our_clock(event) for event in events]
        for event in events:
            fields = {name: value for name, value in event.items() if name not in ("t", "event")}
            self._history.record(event["event"], t=event["t"], **fields)
        with self.changed:
            for event in events:
                self.seen.append(event)
                if event["event"] == "epoch" and event["state"] == "declared":
                    self.running = event["epoch"]
                elif event["event"] == "epoch":
                    self.running = None
                    self.last_published = max(self.last_published, event["epoch"])
            self.changed.notify_all()

    def _by_our_clock(self, event: dict[str, Any]) -> dict[str, Any]:
        now, told = time.time_ns() // 1_000_000, event["t"]
        off = any(abs(told - now - step) <= AROUND_MS for step in self._steps_ms)
        return {**event, "t": now, "told_t": told} if off else event
