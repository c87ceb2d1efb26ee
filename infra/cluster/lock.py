"""One command at a time changes engine, cluster, images and stack; the state directory has the lock.

The kernel gives it back when its holder ends, however that comes about: a file that only names a holder would outlive
one that was killed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from infra.cluster.state import StateDirectory
from infra.errors import UserError


class BusyError(UserError):
    """Another command has the lock; the message names it and says what to do."""


@contextmanager
def exclusive(state: StateDirectory, command: str) -> Iterator[None]:
    """Hold the lock as `command`, which the refusal of another one names.

    Raises BusyError at once when another process holds it.
    """
    state.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Not inherited by programs that are started: an engine that outlives its command would keep the lock.
    with state.lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another command"
            raise BusyError(
                f"{command}: {holder} is at work on {state.root}; wait for its end, or interrupt it, and try again"
            ) from None
        file.truncate(0)
        file.write(f"{command} (process {os.getpid()}, since {datetime.now(UTC):%H:%M:%S} UTC)\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
