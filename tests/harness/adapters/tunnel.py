"""A port of this machine that leads to a port of a pod, for servers that nobody outside the cluster can reach."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from select import select
from typing import Any, Protocol

from infra.embedded.ports import HOST

CHUNK = 1 << 16


class Far(Protocol):
    """The part of a socket that is used of the other end."""

    def fileno(self) -> int:
        """For `select`."""

    def recv(self, size: int, /) -> bytes:
        """What came; nothing at its end."""

    def sendall(self, data: bytes, /) -> None:
        """Send all of it."""

    def close(self) -> None:
        """End it."""


class Tunnel:
    """Connections to `port` go to where `dial` leads, each for itself: a pod that was replaced is another one.

    Args:
        dial: opens the far end of one connection. What it raises ends that connection alone.
    """

    def __init__(self, dial: Callable[[], Far]) -> None:
        """Nothing listens yet."""
        self._dial = dial
        self._listener: socket.socket | None = None
        self._ends: set[Any] = set()
        self._lock = threading.Lock()
        self.port = 0
        self.trouble = ""
        """Why the last connection that failed did, for messages."""

    def start(self) -> None:
        """Listen. Raises OSError."""
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), name="tunnel", daemon=True).start()

    def stop(self) -> None:
        """End, with every connection. Safe to repeat."""
        listener, self._listener = self._listener, None
        if listener is not None:
            # `close` alone does not wake who waits in `accept`.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            ends = list(self._ends)
        for one in ends:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                threading.Thread(target=self._carry, args=(near,), name="tunnel", daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near:
            self._note(near)
            try:
                far = self._dial()
            # The connection ends, which its client notices; whatever the reason is, the next one may succeed.
            except Exception as error:
                self.trouble = f"{type(error).__name__}: {error}"
            else:
                with suppress(OSError):
                    _relay(near, far)
                far.close()
            finally:
                self._forget(near)

    def _note(self, end: socket.socket) -> None:
        with self._lock:
            self._ends.add(end)

    def _forget(self, end: socket.socket) -> None:
        with self._lock:
            self._ends.discard(end)


def _relay(near: Far, far: Far) -> None:
    """Pass on both ways until one of them ends."""
    while True:
        for one in select([near, far], [], [])[0]:
            data = one.recv(CHUNK)
            if not data:
                return
            (far if one is near else near).sendall(data)
