"""Connections of a link in front of the object store: read, passed on, answered, reset."""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from tests.harness.adapters.treatment import Asked, Treatment

BLOCK = 65_536
# Of the connection, not of the message (RFC 9110, 7.6.1); the handler has answered an Expect itself.
HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"}
BODILESS = (204, 304)
CONDITIONS = ("If-Match", "If-None-Match")
RESET = struct.pack("ii", 1, 0)


class Link(Protocol):
    """What a connection asks of the link it belongs to."""

    target: tuple[str, int]

    def treatment(self, asked: Asked) -> Treatment | None:
        """What goes wrong with a request that has come."""

    def hold(self, seconds: float) -> None:
        """Wait, at most until the link is calmed."""


class LinkServer(ThreadingHTTPServer):
    """A thread a connection; knows its connections, to end them."""

    request_queue_size = 128
    link: Link

    def __init__(self, address: tuple[str, int]) -> None:
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that goes away is no error of the link.
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def cut_all(self) -> None:
        """End every connection."""
        with self._guard:
            left = list(self._open)
        for one in left:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class _ClientGoneError(Exception):
    """The client left before it had sent the body."""


class _Handler(BaseHTTPRequestHandler):
    """One client's connection, and one of its own to the store."""

    protocol_version = "HTTP/1.1"
    # Head and body of an answer are two packets: the second one would wait for the client's delayed acknowledgement.
    disable_nagle_algorithm = True
    server: LinkServer

    def setup(self) -> None:
        super().setup()
        self._upstream = HTTPConnection(*self.server.link.target)

    def finish(self) -> None:
        self._upstream.close()
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Say nothing."""

    def _handle_request(self) -> None:
        link = self.server.link
        condition = next((name for name in CONDITIONS if name in self.headers), "")
        treatment = link.treatment(Asked(self.command, self.path.partition("?")[0], condition))
        if treatment is None:
            self._pass_on(lambda: None)
        elif not treatment.passed_on:
            if treatment.cut:
                self._cut()
                return
            for _ in self._body():
                pass
            link.hold(treatment.wait_s)
            self._refuse(treatment)
        else:
            self._pass_on(lambda: link.hold(treatment.wait_s), treatment)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle_request  # noqa: N815 - as the base class calls them

    def _pass_on(self, wait: Callable[[], None], treatment: Treatment | None = None) -> None:
        try:
            answer = self._answer()
            if treatment is not None and (treatment.cut or treatment.answer is not None):
                # Carried out to the end; nobody hears of it.
                answer.read()
                wait()
                if treatment.cut:
                    self._cut()
                else:
                    self._refuse(treatment)
                return
            wait()
            self._pass_back(answer)
        except (OSError, HTTPException, _ClientGoneError):
            # Whoever of the two is gone: the other one sees its connection break, as it would without the link.
            self._upstream.close()
            self._cut()

    def _answer(self) -> HTTPResponse:
        """Pass the request on; what the store answers, its body unread."""
        upstream = self._upstream
        if upstream.sock is not None and select.select([upstream.sock], [], [], 0)[0]:
            # The store closed it, or was killed, since the last answer: the client's next request begins anew.
            upstream.close()
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        chunked = "chunked" in (self.headers.get("Transfer-Encoding") or "").lower()
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP:
                upstream.putheader(name, value)
        if chunked:
            upstream.putheader("Transfer-Encoding", "chunked")
        upstream.endheaders()
        taken = True
        for block in self._body():
            if taken:
                try:
                    upstream.send(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
                except (BrokenPipeError, ConnectionResetError):
                    # It answered without waiting for the whole body. The client has to get rid of the rest.
                    taken = False
        if chunked and taken:
            upstream.send(b"0\r\n\r\n")
        return upstream.getresponse()

    def _body(self) -> Iterator[bytes]:
        """The request's body, as it comes."""
        if "chunked" in (self.headers.get("Transfer-Encoding") or "").lower():
            while size := int(self._line().partition(b";")[0], 16):
                yield self._read(size)
                self._line()
            while self._line():
                pass
            return
        left = int(self.headers.get("Content-Length") or 0)
        while left:
            block = self._read(min(left, BLOCK))
            left -= len(block)
            yield block

    def _line(self) -> bytes:
        line = self.rfile.readline(BLOCK)
        if not line.endswith(b"\n"):
            raise _ClientGoneError
        return line.strip()

    def _read(self, size: int) -> bytes:
        block = self.rfile.read(size)
        if len(block) < size:
            raise _ClientGoneError
        return block

    def _pass_back(self, answer: HTTPResponse) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        bodiless = self.command == "HEAD" or answer.status in BODILESS
        chunked = not bodiless and answer.getheader("Content-Length") is None
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if bodiless:
            answer.read()
            return
        while block := answer.read(BLOCK):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
        if answer.length:
            raise _ClientGoneError
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, treatment: Treatment) -> None:
        """An error as S3 words it."""
        assert treatment.answer is not None
        status, code = treatment.answer
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{code}</Code><Message>made by the fault link</Message><RequestId>0</RequestId></Error>"
        ).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _cut(self) -> None:
        """Reset the connection: without the orderly end that would follow, and at once."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            os.close(self.connection.detach())
