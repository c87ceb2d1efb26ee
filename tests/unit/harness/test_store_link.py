"""The link in front of the object store: nothing changes on it when it is calm, and exactly what is asked when not."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from email.message import Message
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import urllib3

from tests.harness.adapters.store_link import StoreLink
from tests.harness.adapters.treatment import Asked, Treatment

SOON_S = 10.0


class Backend(BaseHTTPRequestHandler):
    """Keeps what is put, answers what is got, and tells how it was asked."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    kept: dict[str, bytes]
    asked: list[tuple[str, str, Message]]
    connections: list[Any]

    def setup(self) -> None:
        super().setup()
        self.connections.append(self.connection)

    def _note(self) -> None:
        self.asked.append((self.command, self.path, self.headers))

    def _tell(self, status: int, body: bytes, *, chunked: bool = False, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("ETag", '"an etag"')
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif status != 204:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if chunked:
            for at in range(0, len(body), 1_000):
                piece = body[at : at + 1_000]
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        elif self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        self._note()
        body = self.kept.get(self.path.partition("?")[0])
        if "torn" in self.path:
            self._tell(200, b"half", length=100)
            self.close_connection = True
        elif body is None:
            self._tell(404, b"none")
        else:
            self._tell(200, body, chunked="chunked" in self.path)

    do_HEAD = do_GET  # noqa: N815 - the names of the base class

    def do_PUT(self) -> None:
        self._note()
        body = b""
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.kept[self.path.partition("?")[0]] = body
        self._tell(200, b"")

    def do_DELETE(self) -> None:
        self._note()
        self.kept.pop(self.path, None)
        self._tell(204, b"")

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


class Both:
    """A backend and the link in front of it."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, Message]] = []
        self.connections: list[Any] = []
        self.port = 0
        self.begin()
        self.link = StoreLink("127.0.0.1", self.port)
        self.link.start()
        self.http = urllib3.PoolManager(retries=False, timeout=SOON_S)

    def begin(self) -> None:
        handler = type("H", (Backend,), {"kept": self.kept, "asked": self.asked, "connections": self.connections})
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        for one in self.connections:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self.connections.clear()

    def ask(self, verb: str, path: str, **more: Any) -> Any:
        """Ask through the link."""
        return self.http.request(verb, f"{self.link.endpoint}{path}", **more)

    def client(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.link.port, timeout=SOON_S)

    def close(self) -> None:
        self.http.clear()
        self.link.stop()
        self.link.stop()
        self.end()


@pytest.fixture
def both() -> Iterator[Both]:
    made = Both()
    yield made
    made.close()


def test_requests_and_answers_pass_unchanged(both: Both) -> None:
    signed = "/bucket/a%20b/c?X-Amz-Signature=0f%2F&x-id=PutObject"
    put = both.ask("PUT", signed, body=b"body", headers={"If-None-Match": "*", "X-Amz-Meta-A": "1"})
    assert (put.status, put.headers["ETag"]) == (200, '"an etag"')
    verb, path, headers = both.asked[-1]
    assert (verb, path) == ("PUT", signed)
    assert headers.get_all("Host") == [f"127.0.0.1:{both.link.port}"], "the signature is checked by it"
    assert (headers["If-None-Match"], headers["X-Amz-Meta-A"]) == ("*", "1")
    assert both.kept == {"/bucket/a%20b/c": b"body"}
    assert both.ask("GET", "/bucket/a%20b/c").data == b"body"
    assert both.ask("GET", "/bucket/a%20b/c?chunked").data == b"body"
    head = both.ask("HEAD", "/bucket/a%20b/c")
    assert (head.status, head.headers["Content-Length"], head.data) == (200, "4", b"")
    assert both.ask("GET", "/none").status == 404
    assert both.ask("DELETE", "/bucket/a%20b/c").status == 204
    assert both.kept == {}
    assert both.link.hits == {}


def test_one_connection_serves_many_requests_on_both_sides(both: Both) -> None:
    client = both.client()
    for number in range(50):
        client.request("PUT", f"/{number}", body=b"x")
        assert client.getresponse().read() == b""
        client.request("HEAD", f"/{number}")
        client.getresponse().read()
    assert len(both.connections) == 1
    client.close()


def test_bodies_of_many_megabytes_pass_whole(both: Both) -> None:
    body = bytes(range(256)) * 40_000
    both.ask("PUT", "/large", body=body)
    both.ask("PUT", "/streamed", body=iter([body[:7], body[7:]]))
    assert both.asked[-1][2].get("Transfer-Encoding") == "chunked"
    for name in ("/large", "/streamed", "/large?chunked"):
        found = both.ask("GET", name).data
        assert hashlib.sha256(found).digest() == hashlib.sha256(body).digest()


def test_a_client_that_asks_before_it_sends_the_body_is_told_to(both: Both) -> None:
    with socket.create_connection(("127.0.0.1", both.link.port), SOON_S) as client:
        client.sendall(b"PUT /waits HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        client.sendall(b"body")
        assert client.recv(1_000).startswith(b"HTTP/1.1 200")
    assert both.kept["/waits"] == b"body"
    assert "Expect" not in both.asked[-1][2]


def test_a_store_that_was_restarted_is_found_again_and_an_answer_that_broke_off_is_not_made_whole(both: Both) -> None:
    client = both.client()
    client.request("PUT", "/a", body=b"a")
    client.getresponse().read()
    both.end()
    with pytest.raises(urllib3.exceptions.ProtocolError):
        both.ask("GET", "/a")
    both.begin()
    client.request("GET", "/a")
    assert client.getresponse().read() == b"a"
    client.close()
    with pytest.raises(urllib3.exceptions.ProtocolError):
        both.ask("GET", "/torn")


@pytest.mark.parametrize(
    ("treatment", "carried_out"),
    [
        (Treatment("503", passed_on=False, answer=(503, "SlowDown")), False),
        (Treatment("500", answer=(500, "InternalError")), True),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_an_error_is_answered_and_a_put_carried_out_or_not(both: Both, treatment: Treatment, carried_out: bool) -> None:
    both.link.strike(lambda asked: treatment if asked.verb == "PUT" else None)
    answer = both.ask("PUT", "/b/k", body=b"body", headers={"If-Match": '"e"'})
    assert treatment.answer is not None
    assert answer.status == treatment.answer[0]
    assert f"<Code>{treatment.answer[1]}</Code>".encode() in answer.data
    assert ("/b/k" in both.kept) is carried_out
    assert both.ask("GET", "/b/k").status == (200 if carried_out else 404)
    assert both.link.hits == {f"PUT If-Match: {treatment.name}": 1}


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_connection_is_reset_before_or_after_the_put_is_carried_out(both: Both, carried_out: bool) -> None:
    both.link.strike(lambda _: Treatment("cut", passed_on=carried_out, cut=True))
    with socket.create_connection(("127.0.0.1", both.link.port), SOON_S) as client:
        client.sendall(b"PUT /k HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\nContent-Length: 1\r\n\r\n1")
        with pytest.raises(ConnectionResetError):
            client.recv(100)
    assert ("/k" in both.kept) is carried_out
    both.link.calm()
    assert both.ask("GET", "/k").status == (200 if carried_out else 404)
    assert both.link.hits == {"PUT If-None-Match: cut": 1}


def test_a_slow_answer_waits_and_goes_back_at_once_when_the_link_is_calmed(both: Both) -> None:
    both.ask("PUT", "/k", body=b"body")
    both.link.strike(lambda _: Treatment("late", wait_s=0.2))
    began = time.monotonic()
    assert both.ask("GET", "/k").data == b"body"
    assert time.monotonic() - began >= 0.2
    both.link.strike(lambda _: Treatment("late", wait_s=600.0))
    threading.Timer(0.1, both.link.calm).start()
    assert both.ask("GET", "/k").data == b"body"
    both.link.calm()
    assert both.link.hits == {"GET: late": 1}, "what was hit can be told afterwards"
    both.link.strike(lambda _: None)
    assert both.link.hits == {}


def test_what_goes_wrong_is_chosen_by_what_is_asked(both: Both) -> None:
    seen: list[Asked] = []
    both.link.strike(seen.append)
    both.ask("PUT", "/b/head.json?x=1", body=b"", headers={"if-match": '"e"'})
    both.ask("GET", "/b/head.json")
    assert seen == [Asked("PUT", "/b/head.json", "If-Match"), Asked("GET", "/b/head.json")]
    assert both.link.hits == {}


def test_the_end_of_the_link_ends_its_connections(both: Both) -> None:
    client = both.client()
    client.request("HEAD", "/")
    client.getresponse().read()
    both.link.stop()
    assert client.sock is not None
    assert client.sock.recv(1) == b""
    client.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", both.link.port), 1.0)
