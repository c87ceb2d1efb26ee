"""One gateway per directory."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from effectively_once.gateway.errors import BufferLockedError


class DirectoryLock:
    """Held from its making to `release`, or the end of the process. Raises BufferLockedError.

    A lock of the open file, not of the process: two gateways of one process exclude each other as well.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / "lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._fd, 32).decode(errors="replace").strip()
            os.close(self._fd)
            raise BufferLockedError(
                f"another gateway has the buffer open (process {holder or 'unknown'})",
                str(directory),
                "Close it first, or give this one a directory of its own.",
            ) from error
        # Only for that message: on a full disk the lock holds without.
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.write(self._fd, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let the next one in. Safe to repeat."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
