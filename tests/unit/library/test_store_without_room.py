"""A store that answers reads and takes no writes: the protocol must not ask it for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from effectively_once.errors import UnreachableError
from effectively_once.ledger.objects import create_once, run
from effectively_once.store import s3_client
from effectively_once.store.object_store import BucketAddress, S3ObjectStore

PUTS: list[str] = []


class NoRoom(BaseHTTPRequestHandler):
    """GET finds nothing, PUT has no room."""

    def do_GET(self) -> None:
        body = b"<Error><Code>NoSuchKey</Code></Error>"
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        PUTS.append(self.path)
        self.send_response(507)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), NoRoom)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_put_that_is_never_taken_ends_as_unreachable(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(s3_client.ACCESS_KEY, "a")
    monkeypatch.setenv(s3_client.SECRET_KEY, "b")
    PUTS.clear()
    store = S3ObjectStore(BucketAddress(endpoint, "bucket"), patience_s=0.7)
    with pytest.raises(UnreachableError, match=r"no room left.*507.*Make room on its disk"):
        run(create_once("key", b"body"), store)
    assert 2 <= len(PUTS) <= 6
