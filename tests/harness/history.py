"""The append-only history of a run: everything that happened, one JSON line per event."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tests.harness.evidence import EvidenceError

LINK = "link"
"""Field of an event: digest of the line before it and of itself, so that the lines are a chain."""
FIRST = ""
_LINKED = re.compile(rb',"link":"([0-9a-f]{16})"}$')


class History:
    """Appends events to `history.jsonl`, each with a digest of all before it.

    Every event is one `write` on a descriptor opened with O_APPEND, so that threads and other processes that
    append to the same file never tear each other's lines.

    Args:
        path: the file; it and its folder are created when missing.

    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = threading.Lock()
        last = path.read_bytes().splitlines()[-1:] if path.is_file() else []
        self._link = link_in(last[0]) if last else FIRST
        self._descriptor: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def record(self, event: str, /, *, t: int | None = None, **fields: Any) -> int:
        """Append one event.

        Args:
            event: `phase`, `epoch`, `step`, `fault`, `driver`, `sent`, `unacknowledged` or `change`.
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
            self._link, whole = link_line(self._link, orjson.dumps({"t": at, "event": event, **fields}))
            line = whole + b"\n"
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


def link_line(before: str, line: bytes) -> tuple[str, bytes]:
    """Return the link of a line, and the line with it.

    Args:
        before: the link of the line before it; FIRST of none.
        line: a JSON object that is not empty, without a line end.
    """
    link = hashlib.sha256(before.encode() + line).hexdigest()[:16]
    return link, line[:-1] + f',"{LINK}":"{link}"}}'.encode()


def link_in(line: bytes) -> str:
    """Return the link that a line ends with; FIRST where it has none."""
    found = _LINKED.search(line)
    return found[1].decode() if found else FIRST


def chain_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Make a chain of lines, whatever links they had."""
    link = FIRST
    for line in lines:
        link, whole = link_line(link, _LINKED.sub(b"}", line))
        yield whole


def end_of_links(path: Path) -> str:
    """Return the link of the last line, when all lines are a chain.

    Raises:
        EvidenceError: a line is not linked to those before it.
        OSError: the file cannot be read.
    """
    link = FIRST
    lines = path.read_bytes().splitlines()
    for number, (line, whole) in enumerate(zip(lines, chain_lines(lines), strict=True), start=1):
        if line != whole:
            why = "is not linked to those before it" if link_in(line) else "has no link: recorded before there were any"
            raise EvidenceError(f"history line {why}", f"{path}:{number}", "judge an unaltered run, or run again")
        link = link_in(line)
    return link


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
        event.pop(LINK, None)
        events.append(event)
    return events
