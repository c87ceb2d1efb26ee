"""The checkpoint file manager over short outages of the store: waited for, and nobody else's file taken for its own."""

from __future__ import annotations

import hashlib
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO

import pytest
from pyspark.sql import SparkSession

from infra.embedded.object_store import ObjectStore
from infra.embedded.ports import HOST
from tests.harness.adapters.store_link import StoreLink
from tests.harness.adapters.treatment import Asked, Treatment
from tests.harness.faults.store_answers import BROKEN, BUSY, FULL, UNASKED, UNHEARD
from tests.spark.test_checkpoint_manager import EXISTS, FAILED, Manager, made, thrown

pytestmark = [pytest.mark.spark, pytest.mark.core]

MORE = 6
"""Requests that go wrong: more than the four attempts of the SDK's own strategies."""
PATIENCE_S = 30.0
SHORT_MS = 1_500
SOON_S = 5.0
ANSWER_S = 10.0
HEAD_ALONE = -1
RESET = struct.pack("ii", 1, 0)


@pytest.fixture(scope="module")
def link(store: ObjectStore) -> Iterator[StoreLink]:
    host, _, port = store.endpoint.removeprefix("http://").partition(":")
    made_ = StoreLink(host, int(port))
    made_.start()
    yield made_
    made_.stop()


@pytest.fixture
def manager(
    spark: SparkSession, store: ObjectStore, link: StoreLink, request: pytest.FixtureRequest
) -> Iterator[Manager]:
    """Reach the store by the link, as patiently as a pipeline does."""
    yield made(spark, store, request.node.name, link.endpoint, patience_ms=int(PATIENCE_S * 1000))
    link.calm()


def first(
    treatment: Treatment, times: int, verbs: tuple[str, ...] = ("PUT",), last: Callable[[], object] = lambda: None
) -> Callable[[Asked], Treatment | None]:
    """Treat the first requests of these verbs, call `last` with the last of them, and let every other one pass."""
    left = [times]

    def choose(asked: Asked) -> Treatment | None:
        if asked.verb not in verbs or not left[0]:
            return None
        left[0] -= 1
        if not left[0]:
            last()
        return treatment

    return choose


def there(store: ObjectStore, manager: Manager, name: str, content: bytes) -> None:
    """Put an object past manager and link, as another driver would."""
    key = f"{manager.root.removeprefix(f's3://{store.bucket}/')}/{name}"
    store.client().put_object(store.bucket, key, BytesIO(content), len(content))


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("treatment", [BUSY, FULL, UNASKED], ids=lambda one: one.name)
def test_a_put_is_sent_again_until_the_store_takes_it(
    manager: Manager, link: StoreLink, treatment: Treatment, overwrite: bool
) -> None:
    link.strike(first(treatment, MORE))
    manager.write("0", b"content", overwrite)
    assert sum(link.hits.values()) == MORE
    assert manager.read("0") == b"content"


@pytest.mark.parametrize("treatment", [BROKEN, UNHEARD], ids=lambda one: one.name)
def test_a_put_that_took_place_unheard_knows_its_own_object_when_it_is_sent_again(
    manager: Manager, link: StoreLink, treatment: Treatment
) -> None:
    link.strike(first(treatment, MORE))
    manager.write("0", b"content")
    assert link.hits == {f"PUT If-None-Match: {treatment.name}": MORE}
    assert manager.read("0") == b"content"


@pytest.mark.parametrize("treatment", [BUSY, UNASKED], ids=lambda one: one.name)
def test_an_object_that_somebody_else_put_during_the_outage_still_is_a_conflict(
    manager: Manager, store: ObjectStore, link: StoreLink, treatment: Treatment
) -> None:
    link.strike(first(treatment, MORE, last=lambda: there(store, manager, "0", b"theirs")))
    kind, message = thrown(manager.writing("0", b"ours").close)
    assert kind == EXISTS
    assert "was written by another driver" in message
    assert manager.read("0") == b"theirs"


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "AccessDenied"), (404, "NoSuchBucket"), (400, "InvalidArgument"), (501, "NotImplemented")],
)
def test_a_refusal_is_no_outage_and_is_not_asked_for_twice(
    manager: Manager, link: StoreLink, status: int, code: str
) -> None:
    link.strike(lambda _: Treatment("refused", passed_on=False, answer=(status, code)))
    began = time.monotonic()
    kind, message = thrown(manager.writing("0", b"content").close)
    assert kind == FAILED
    assert "made by the fault link" in message
    assert link.hits == {"PUT If-None-Match: refused": 1}
    assert time.monotonic() - began < SOON_S


def test_a_conditional_put_that_met_another_one_under_way_is_sent_again(manager: Manager, link: StoreLink) -> None:
    link.strike(first(Treatment("409", passed_on=False, answer=(409, "ConditionalRequestConflict")), MORE))
    manager.write("0", b"content")
    assert manager.read("0") == b"content"


@pytest.mark.parametrize("treatment", [BUSY, UNASKED], ids=lambda one: one.name)
def test_what_is_read_listed_and_deleted_is_asked_for_again(
    manager: Manager, link: StoreLink, treatment: Treatment
) -> None:
    manager.write("0", b"content")
    for action, expected in (
        (lambda: manager.read("0"), b"content"),
        (lambda: manager.java.exists(manager.path("0")), True),
        (manager.names, ["0"]),
        (lambda: manager.java.delete(manager.path("0")), None),
        (manager.names, []),
    ):
        link.strike(first(treatment, MORE, ("GET", "HEAD", "DELETE")))
        assert action() == expected
        assert sum(link.hits.values()) == MORE


def test_patience_ends(spark: SparkSession, store: ObjectStore, link: StoreLink) -> None:
    manager = made(spark, store, "patience", link.endpoint, patience_ms=SHORT_MS)
    link.strike(lambda _: BUSY)
    began = time.monotonic()
    kind, message = thrown(manager.writing("0", b"content").close)
    lasted_s = time.monotonic() - began
    link.calm()
    assert kind == FAILED
    assert "/0 failed: made by the fault link" in message
    assert SHORT_MS / 1000 <= lasted_s < SHORT_MS / 1000 + SOON_S
    assert not manager.java.exists(manager.path("0"))


def test_a_store_that_restarts_is_waited_for(manager: Manager, store: ObjectStore, link: StoreLink) -> None:
    """Between its end and its return connections are refused; the manager has to try more often than the SDK would."""
    tried = threading.Semaphore(0)

    def count(_: Asked) -> None:
        tried.release()

    out = manager.writing("0", b"content")
    failed: list[Exception] = []

    def close() -> None:
        try:
            out.close()
        except Exception as error:
            failed.append(error)

    store.stop()
    try:
        link.strike(count)
        closing = threading.Thread(target=close)
        closing.start()
        for _ in range(MORE):
            assert tried.acquire(timeout=PATIENCE_S)
    finally:
        store.restart()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert failed == []
    assert manager.read("0") == b"content"


@pytest.mark.slow
def test_an_answer_that_does_not_come_is_not_waited_for_to_the_end_of_patience(
    manager: Manager, link: StoreLink
) -> None:
    """A connection whose other end is gone without a word costs one answer's time."""
    link.strike(first(Treatment("late", wait_s=PATIENCE_S), 1))
    began = time.monotonic()
    manager.write("0", b"content")
    assert ANSWER_S <= time.monotonic() - began < ANSWER_S + SOON_S
    assert manager.read("0") == b"content"


class _Pausing(BaseHTTPRequestHandler):
    """A store that asks for a minute's pause once, as MinIO does while it starts, and then takes what comes."""

    protocol_version = "HTTP/1.1"
    asked: int

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Say nothing."""

    def do_PUT(self) -> None:
        type(self).asked += 1
        # Whatever the body's form, nothing follows it on this connection.
        self.close_connection = True
        self.send_response(503 if self.asked == 1 else 200)
        self.send_header("Connection", "close")
        if self.asked == 1:
            self.send_header("Retry-After", "60")
        self.send_header("ETag", '"an etag"')
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_a_pause_that_a_starting_store_asks_for_is_not_kept(spark: SparkSession, store: ObjectStore) -> None:
    _Pausing.asked = 0
    with ThreadingHTTPServer((HOST, 0), _Pausing) as server:
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        manager = made(
            spark, store, "pausing", f"http://{HOST}:{server.server_port}", patience_ms=int(PATIENCE_S * 1000)
        )
        began = time.monotonic()
        manager.write("0", b"content")
        assert time.monotonic() - began < SOON_S
        server.shutdown()
    assert _Pausing.asked == 2


class _Tearing(socketserver.BaseRequestHandler):
    """Passes a connection on; of the first ones, resets it when so many bytes have come back."""

    server: _Torn

    def handle(self) -> None:
        left = self.server.allowed()
        with socket.create_connection(self.server.target) as upstream, suppress(OSError):
            threading.Thread(target=self._there, args=(upstream,), daemon=True).start()
            while block := upstream.recv(65_536):
                left = block.index(b"\r\n\r\n") + 4 if left == HEAD_ALONE else left
                self.request.sendall(block[:left])
                left -= len(block)
                if left <= 0:
                    self.server.torn()
                    self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    return

    def _there(self, upstream: socket.socket) -> None:
        with suppress(OSError):
            while block := self.request.recv(65_536):
                upstream.sendall(block)


class _Torn(socketserver.ThreadingTCPServer):
    daemon_threads = True
    target: tuple[str, int]
    times, after = 0, 0
    torn: Callable[[], object] = staticmethod(lambda: None)

    def allowed(self) -> int:
        """Bytes that a new connection may bring back."""
        self.times -= 1
        return self.after if self.times >= 0 else 1 << 40


@contextmanager
def torn(store: ObjectStore, times: int, after: int, then: Callable[[], object] = lambda: None) -> Iterator[str]:
    """Give an endpoint whose first connections are reset after so many bytes of an answer."""
    host, _, port = store.endpoint.removeprefix("http://").partition(":")
    with _Torn((HOST, 0), _Tearing) as server:
        server.target, server.times, server.after, server.torn = (host, int(port)), times, after, then
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        yield f"http://{HOST}:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("size", [600_000, 3 << 20], ids=["in memory", "as it is read"])
def test_a_file_whose_bytes_break_off_is_read_to_its_end(spark: SparkSession, store: ObjectStore, size: int) -> None:
    content = hashlib.shake_128(b"some").digest(size)
    made(spark, store, f"torn-{size}").write("0", content)
    with torn(store, MORE, size // 10) as endpoint:
        manager = made(spark, store, f"torn-{size}", endpoint, patience_ms=int(PATIENCE_S * 1000))
        assert manager.read("0") == content


def test_the_rest_of_a_file_is_never_that_of_another_one(spark: SparkSession, store: ObjectStore) -> None:
    size = 3 << 20
    direct = made(spark, store, "replaced")
    direct.write("0", hashlib.shake_128(b"some").digest(size))
    with torn(store, 1, size // 2, lambda: there(store, direct, "0", b"other" * size)) as endpoint:
        manager = made(spark, store, "replaced", endpoint, patience_ms=int(PATIENCE_S * 1000))
        kind, message = thrown(lambda: manager.read("0"))
    assert kind == FAILED
    assert "GET of" in message


@pytest.mark.parametrize("size", [600_000, 3 << 20], ids=["in memory", "as it is read"])
def test_answers_without_a_byte_of_the_file_are_an_error_in_the_end(
    spark: SparkSession, store: ObjectStore, size: int
) -> None:
    made(spark, store, f"for-ever-{size}").write("0", hashlib.shake_128(b"some").digest(size))
    with torn(store, 1 << 30, HEAD_ALONE) as endpoint:
        manager = made(spark, store, f"for-ever-{size}", endpoint, patience_ms=SHORT_MS)
        began = time.monotonic()
        kind, _ = thrown(lambda: manager.read("0"))
        lasted_s = time.monotonic() - began
    assert "Exception" in kind
    assert SHORT_MS / 1000 <= lasted_s < SHORT_MS / 1000 + SOON_S
