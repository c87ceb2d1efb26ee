"""A small S3 over HTTP, for tests, that keeps the conditions of puts, or leaves one thing out that stores leave out."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Lack(StrEnum):
    """What a store does not keep."""

    NOTHING = "nothing"
    IF_NONE_MATCH = "ignores If-None-Match"
    IF_MATCH = "ignores If-Match"
    IF_MATCH_ON_NOTHING = "If-Match on no object creates one"
    ETAG_OF_SIZE = "the ETag is made of the size"
    ETAG_OF_PUT = "the ETag of a put is not that of a get"
    NEVER_TRUE = "If-Match is never true"
    NEVER_NEW = "If-None-Match is never true"
    WRITES_WHAT_IT_REFUSES = "answers 412, and writes all the same"
    STALE_READS = "reads what it read first"
    FORGETS = "acknowledges what it does not keep"
    FORGETS_SECONDS = "acknowledges a replacement that it does not keep"
    FORGETS_DELETES = "acknowledges a delete, and reads on"
    CONFLICTS = "answers 409 to every condition that does not hold"
    FULL = "507 to every put"


class FakeS3:
    """Objects of one server; signatures are not looked at.

    Attributes:
        objects: by path.
        requests: verb and path of each, in order.

    """

    def __init__(self, lack: Lack) -> None:
        self.lack = lack
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self._read: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def answer(self, verb: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Answer one request."""
        with self._lock:
            self.requests.append((verb, path))
            match verb:
                case "PUT":
                    return self._put(path, headers, body)
                case "DELETE":
                    if self.lack != Lack.FORGETS_DELETES:
                        self.objects.pop(path, None)
                    return 204, {}, b""
            return self._get(path)

    def _get(self, path: str) -> tuple[int, dict[str, str], bytes]:
        body = self.objects.get(path)
        if self.lack == Lack.STALE_READS and body is not None:
            body = self._read.setdefault(path, body)
        if body is None:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        return 200, {"ETag": self._etag(body)}, body

    def _put(self, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if self.lack == Lack.FULL:
            return 507, {}, b"<Error><Code>XMinioStorageFull</Code></Error>"
        there = self.objects.get(path)
        if not self._holds(headers, there):
            if self.lack == Lack.WRITES_WHAT_IT_REFUSES:
                self.objects[path] = body
            return 409 if self.lack == Lack.CONFLICTS else 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"
        forgotten = self.lack == Lack.FORGETS or (self.lack == Lack.FORGETS_SECONDS and there is not None)
        if not forgotten:
            self.objects[path] = body
        return 200, {"ETag": '"another"' if self.lack == Lack.ETAG_OF_PUT else self._etag(body)}, b""

    def _holds(self, headers: Any, there: bytes | None) -> bool:
        if headers["If-None-Match"] == "*":
            return self.lack != Lack.NEVER_NEW and (there is None or self.lack == Lack.IF_NONE_MATCH)
        if there is None:
            return self.lack == Lack.IF_MATCH_ON_NOTHING
        return self.lack == Lack.IF_MATCH or (self.lack != Lack.NEVER_TRUE and headers["If-Match"] == self._etag(there))

    def _etag(self, body: bytes) -> str:
        of = str(len(body)).encode() if self.lack == Lack.ETAG_OF_SIZE else body
        return f'"{hashlib.md5(of, usedforsecurity=False).hexdigest()}"'


@contextmanager
def fake_s3(lack: Lack = Lack.NOTHING) -> Iterator[tuple[str, FakeS3]]:
    """Serve one; give its endpoint and itself."""
    store = FakeS3(lack)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, headers, content = store.answer(self.command, urlsplit(self.path).path, self.headers, body)
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_DELETE = _answer  # noqa: N815 - the names in the base class

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", store
    finally:
        server.shutdown()
        server.server_close()
