"""A machine or pod that has no disk or memory left, told by what Python, Spark and its JVM fail with."""

from __future__ import annotations

import re
from typing import Final

from effectively_once.errors import ShortageError

NO_ROOM: Final = re.compile(r"No space left on device|Disk quota exceeded")
READ_ONLY: Final = re.compile(r"Read-only file system")
_HEAP: Final = re.compile(r"OutOfMemory(?:Error|Exception)\b:? ?([^\n]*)")
_BESIDE_HEAP: Final = re.compile(r"OutOfMemoryException|native thread|Direct buffer|Metaspace|Compressed class space")
"""What the JVM takes beside its heap; the exception is Arrow's."""
_PYTHON: Final = re.compile(r"^(?:\w+\.)*(?:Arrow|_Array)?MemoryError\b", re.MULTILINE)
_KILLED: Final = re.compile(
    r"\bOOMKilled\b|\bexit(?:ed with)?(?: exit)? code:? ?(137|52)\b|\bexited with code (137|52)\b"
)
"""As Kubernetes, Spark on it and clusters of Spark alone have it; 52 is the code of Spark for an OutOfMemoryError."""
_EXECUTOR: Final = re.compile(r"\((\S+) executor (\w+)\)|\(executor (\w+) exited|\b[Ee]xecutor with id (\w+) exited")
_PATH: Final = re.compile(r": '(/[^'\n]*)'|(/[^\s:()]+) \((?:No space|Disk quota|Read-only)")
OF_POSTGRES: Final = re.compile(r"\bDiskFull\b|could not (?:extend|write to|create) file \"")
"""The same words about a disk of the database, which is told by its own name."""
OR_LESS = "or lower shard_bytes_max or epoch_rows_max; nothing was lost, start the pipeline again."
DRIVER: Final = "the driver"
MAKE_ROOM = (
    "Make room on that disk, or give it a larger one: of a driver or executor that is spark.local.dir (on Kubernetes "
    "the pod's scratch volume) and /tmp; nothing was lost, start the pipeline again."
)
MAKE_WRITABLE = (
    "Mount it writable, or name another folder as spark.local.dir; a file system that became read-only by itself has a "
    "disk that fails: look at the host's log. Nothing was lost, start the pipeline again."
)


def name_shortage(text: str) -> ShortageError | None:
    """Name the shortage behind an error of a driver or an executor; None for any other error.

    Args:
        text: what the error says, with causes and traces as far as they are there.

    """
    if OF_POSTGRES.search(text):
        return None
    return _disk(text) or _memory(text)


def _disk(text: str) -> ShortageError | None:
    if found := NO_ROOM.search(text):
        return ShortageError(f"{_who(text)} cannot write: {found[0]}", _where(text), MAKE_ROOM)
    if READ_ONLY.search(text):
        return ShortageError(f"{_who(text)} cannot write, its file system is read-only", _where(text), MAKE_WRITABLE)
    return None


def _memory(text: str) -> ShortageError | None:
    who, where = _who(text), _where(text)
    if found := _HEAP.search(text):
        heap = not _BESIDE_HEAP.search(found[0])
        return ShortageError(
            f"the JVM of {who} has no memory left: {found[0].strip()[:200]}",
            where,
            f"Raise {_setting(who, heap=heap)}, {OR_LESS}",
        )
    if found := _PYTHON.search(text):
        return ShortageError(
            f"the Python of {who} has no memory left: {found[0]}",
            where,
            f"Raise {_setting(who, heap=False)}, {OR_LESS}",
        )
    if found := _KILLED.search(text):
        return ShortageError(
            f"{who} was killed, as a container is that takes more memory than its limit: {found[0]}",
            where,
            f"Raise {_setting(who, heap='52' in (found[1], found[2]))}, {OR_LESS}",
        )
    return None


def _setting(who: str, *, heap: bool) -> str:
    """Name the setting that gives more memory, of a pipeline on Kubernetes and of Spark."""
    ours, spark = ("driver", "driver") if who == DRIVER else ("executors", "executor")
    if heap:
        return f"pipelines.<name>.{ours}.memory_mib (spark.{spark}.memory)"
    return f"pipelines.<name>.{ours}.memory_overhead_mib (spark.{spark}.memoryOverhead)"


def _who(text: str) -> str:
    """Say whose machine it is: an executor's that the text names, else the driver's own."""
    found = _EXECUTOR.search(text)
    number = next((group for group in (found[2], found[3], found[4]) if group), "driver") if found else "driver"
    return DRIVER if number == "driver" else f"executor {number}"


def _where(text: str) -> str:
    executor, path = _EXECUTOR.search(text), _PATH.search(text)
    host = f"host {executor[1]}" if executor and executor[1] else ""
    folder = next((group for group in path.groups() if group), "") if path else ""
    return ", ".join(part for part in (host, folder) if part) or f"machine or pod of {_who(text)}"
