"""An HTTP link in front of the object store: passes everything on unchanged, until it is told what goes wrong.

What the store was asked is known here, request by request, so that an answer can be lost of a put that was carried out.
"""

from __future__ import annotations

import threading
from collections import Counter

from infra.embedded.ports import HOST, free_ports
from tests.harness.adapters.store_connection import LinkServer
from tests.harness.adapters.treatment import Asked, Choice, Treatment

PORT_TRIES = 3


class StoreLink:
    """Listens on a port of its own and passes on to the store at `host:port`, which may go away and come back.

    The Host header is passed on as it came: clients sign it, and the store checks the signature by it.
    """

    def __init__(self, host: str, port: int) -> None:
        """Nothing listens yet."""
        self.target = (host, port)
        self._lock = threading.Lock()
        self._choice: Choice | None = None
        self._hits: Counter[str] = Counter()
        self._calm = threading.Event()
        self._server: LinkServer | None = None
        self.port = 0

    @property
    def endpoint(self) -> str:
        """Base URL, in the place of the store's own."""
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        """Listen. Raises OSError when no port can be had."""
        for left in range(PORT_TRIES, 0, -1):
            (self.port,) = free_ports(1)
            try:
                self._server = LinkServer((HOST, self.port))
                break
            except OSError:
                if left == 1:
                    raise
        assert self._server is not None
        self._server.link = self
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="store link", daemon=True).start()

    def stop(self) -> None:
        """End, with every connection. Safe to repeat."""
        self.calm()
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.cut_all()

    def strike(self, choice: Choice) -> None:
        """Let go wrong what `choice` says, from now on; hits are counted from nought."""
        with self._lock:
            self._calm.clear()
            self._hits.clear()
            self._choice = choice

    def calm(self) -> None:
        """Pass everything on again, the answers that wait included. Safe to repeat."""
        with self._lock:
            self._choice = None
            self._calm.set()

    @property
    def hits(self) -> dict[str, int]:
        """How many requests were hit since the last strike, by kind and treatment: `PUT If-Match: answer lost`."""
        with self._lock:
            return dict(sorted(self._hits.items()))

    def treatment(self, asked: Asked) -> Treatment | None:
        """What goes wrong with a request that has come; it is counted."""
        with self._lock:
            found = self._choice(asked) if self._choice is not None else None
            if found is not None:
                self._hits[f"{asked.kind}: {found.name}"] += 1
            return found

    def hold(self, seconds: float) -> None:
        """Wait, at most until the link is calmed."""
        self._calm.wait(seconds)
