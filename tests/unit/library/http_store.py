"""A store that is asked over HTTP on this machine, and answers as a test has it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NONE = b"<Error><Code>NoSuchKey</Code></Error>"


class Handler(BaseHTTPRequestHandler):
    """What answers one request, whatever it asks for."""

    def respond(self) -> None:
        raise NotImplementedError

    def _asked(self) -> None:
        self.respond()

    do_GET = do_HEAD = do_POST = do_PUT = _asked  # noqa: N815 - the names in the base class

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Read the request to its end, and answer it."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Say nothing."""


@contextmanager
def serving(handler: type[Handler]) -> Iterator[str]:
    """Serve for as long as the address is used."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
