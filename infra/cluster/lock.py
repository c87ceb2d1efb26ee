"""One command at a time changes engine, cluster, images and stack.

The state directory has a lock, and the machine has one: engine, ports and the cluster's name are the same for every
state directory, and one that fails to make the cluster removes what is there of it. The kernel gives both back when
their holder ends, however that comes about: a file that only names a holder would outlive one that was killed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from infra.cluster import engine
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
        with _machine(command):
            file.truncate(0)
            file.write(f"{command} (process {os.getpid()}, since {datetime.now(UTC):%H:%M:%S} UTC)\n")
            file.flush()
            try:
                yield
            finally:
                file.truncate(0)


@contextmanager
def _machine(command: str) -> Iterator[None]:
    """Hold the machine's lock: a socket that no file stands for, so that every user can ask for it."""
    address = f"\0effectively-once-{hashlib.sha256(str(engine.RUN).encode()).hexdigest()[:16]}"
    with socket.socket(socket.AF_UNIX) as held:
        try:
            held.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise BusyError(
                f"{command}: process {_holder(address) or 'of somebody'} is at work on the cluster of this machine "
                "with another state directory; wait for its end, or interrupt it, and try again"
            ) from None
        held.listen()
        yield


def _holder(address: str) -> int | None:
    """Return the process that listens there; None when it has ended, or is no process of this container."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(address)
        except OSError:
            return None
        return int(struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]) or None
