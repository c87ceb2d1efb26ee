"""The append-only history of a run: everything that happened, one JSON line per event."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tests.harness.evidence import EvidenceError


class History:
    """Appends events to `history.jsonl`.

    Every event is one `write` on a descriptor opened with O_APPEND, so that threads and other processes that
    append to the same file never tear each other's lines.

    Args:
        path: the file; it and its folder are created when missing.

    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = threading.Lock()
        self._descriptor: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def record(self, event: str, /, *, t: int | None = None, **fields: Any) -> int:
        """Append one event.

        Args:
            event: `phase`, `epoch`, `step`, `fault`, `driver`, `sent` or `unacknowledged`.
            t: milliseconds since 1970 when it happened; now when left out.
            fields: the rest of the event, JSON values.

        Returns:
            The time recorded.

        Raises:
            ValueError: the history was closed.

        """
        with self._lock:
            if self._descriptor is None:
                raise ValueError(f"history is closed: {self.path}; record events before closing it")
            at = time.time_ns() // 1_000_000 if t is None else t
            line = orjson.dumps({"t": at, "event": event, **fields}) + b"\n"
            written = os.write(self._descriptor, line)
        if written != len(line):
            raise OSError(f"history line was cut after {written} of {len(line)} bytes: {self.path}; free disk space")
        return at

    def end(self) -> int:
        """Append the last event, which tells how many lines stand before it: one that gets lost is missed."""
        lines = self.path.read_bytes().count(b"\n")
        return self.record("phase", phase="judge", lines=lines)

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def __enter__(self) -> Self:
        """Use the history in a block that closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()


def read_history(path: Path) -> list[dict[str, Any]]:
    """Every event, in the order of the file.

    Raises:
        EvidenceError: the file is missing, empty, its last line is cut, or a line is not an event.

    """
    todo = "take the run directory again from where it was recorded, or run again"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EvidenceError(f"history cannot be read ({error.strerror})", path, todo) from error
    if not content.endswith(b"\n"):
        raise EvidenceError("history is truncated (no line end at its end)", path, todo)
    events: list[dict[str, Any]] = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise EvidenceError(f"history line is not JSON ({error})", f"{path}:{number}", todo) from error
        if not isinstance(event, dict) or type(event.get("t")) is not int or not isinstance(event.get("event"), str):
            raise EvidenceError("history line is no event with `t` and `event`", f"{path}:{number}", todo)
        events.append(event)
    return events
