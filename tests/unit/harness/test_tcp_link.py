"""The link that can be cut: nothing changes on it while it is whole, and a cut loses, doubles and reorders nothing."""

from __future__ import annotations

import asyncio
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.harness.adapters.tcp_link import BLOCK, TcpLink
from tests.unit.harness.sleepers import soon

SOON_S, QUIET_S = 10.0, 0.3


class Echo:
    """Answers what it hears, and keeps it; its connections can be reset."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.open: list[socket.socket] = []
        self.ended = 0
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer.open.append(self.request)
                with suppress(OSError):
                    while block := self.request.recv(BLOCK):
                        outer.heard.append(block)
                        self.request.sendall(block)
                outer.ended += 1

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, allow_reuse_address = True, True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = ("127.0.0.1", self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def said(self) -> bytes:
        return b"".join(self.heard)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def link(echo: Echo) -> Iterator[TcpLink]:
    made = TcpLink("test")
    made.start()
    made.target = echo.address
    yield made
    made.stop()
    made.stop()


def client_of(link: TcpLink) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), SOON_S)


def silent(client: socket.socket) -> bool:
    """Whether a client hears nothing for a while, not even an end."""
    client.settimeout(QUIET_S)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(SOON_S)
    return False


def read(client: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (block := client.recv(BLOCK)):
        got += block
    return got


def spoken(link: TcpLink) -> socket.socket:
    """Open a connection whose client said `a` and heard it."""
    client = client_of(link)
    client.sendall(b"a")
    assert read(client, 1) == b"a"
    return client


def test_bytes_pass_in_both_directions_unchanged(link: TcpLink) -> None:
    body = bytes(range(256)) * 8_000
    with client_of(link) as client:
        threading.Thread(target=client.sendall, args=(body,), daemon=True).start()
        assert read(client, len(body)) == body
    assert link.held == {}


def test_an_end_is_passed_on_while_the_other_direction_goes_on(link: TcpLink) -> None:
    with client_of(link) as client:
        client.sendall(b"last")
        client.shutdown(socket.SHUT_WR)
        assert read(client, 100) == b"last"


def test_both_ways_nothing_gets_through_until_it_is_healed_and_then_everything_once(link: TcpLink, echo: Echo) -> None:
    with client_of(link) as client:
        client.sendall(b"before ")
        assert read(client, 7) == b"before "
        link.cut("both")
        client.sendall(b"while ")
        assert silent(client)
        assert echo.said == b"before "
        assert link.held == {"bytes out": 6}
        link.heal()
        link.heal()
        assert read(client, 6) == b"while "
        client.sendall(b"after")
        assert read(client, 5) == b"after"
    assert echo.said == b"before while after"


@pytest.mark.parametrize("direction", ["in", "out"])
def test_one_way_one_hears_the_other_and_is_not_heard(link: TcpLink, echo: Echo, direction: str) -> None:
    """`in`: the server hears the client, and the client no answer; `out`: the server hears no request."""
    with spoken(link) as client:
        link.cut(direction)
        client.sendall(b"put")
        if direction == "in":
            soon("the server to hear it", lambda: echo.said == b"aput")
        else:
            echo.open[0].sendall(b"news")
            assert read(client, 4) == b"news"
            assert echo.said == b"a"
        assert silent(client)
        assert link.held == {f"bytes {direction}": 3}
        link.heal()
        assert read(client, 3) == b"put"


def test_more_than_the_link_holds_waits_with_the_client_and_arrives_in_order(link: TcpLink, echo: Echo) -> None:
    body = bytes(range(256)) * 40_000
    with client_of(link) as client:
        client.sendall(b"!")
        assert read(client, 1) == b"!"
        link.cut("out")
        sending = threading.Thread(target=client.sendall, args=(body,), daemon=True)
        sending.start()
        sending.join(QUIET_S)
        assert sending.is_alive(), "a sender whose packets are not acknowledged comes to a halt"
        link.heal()
        assert read(client, len(body)) == body
    assert echo.said == b"!" + body


@pytest.mark.parametrize("last", [b"late put", b""])
@pytest.mark.parametrize("direction", ["both", "in", "out"])
def test_the_end_of_a_client_reaches_the_server_after_the_cut_and_behind_what_it_said(
    link: TcpLink, echo: Echo, direction: str, last: bytes
) -> None:
    client = spoken(link)
    link.cut(direction)
    client.sendall(last)
    client.close()
    if direction != "in":
        time.sleep(QUIET_S)
        assert (echo.said, echo.ended) == (b"a", 0)
    link.heal()
    soon("the server to hear the end", lambda: echo.ended == 1)
    assert echo.said == b"a" + last


def test_a_reset_by_the_server_reaches_the_client_after_the_cut(link: TcpLink, echo: Echo) -> None:
    with spoken(link) as client:
        link.cut("both")
        echo.open[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        echo.open[0].shutdown(socket.SHUT_RD)
        echo.open[0].close()
        assert silent(client)
        link.heal()
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""


@pytest.mark.parametrize("direction", ["both", "in", "out"])
def test_who_connects_during_a_cut_reaches_the_server_after_it(link: TcpLink, echo: Echo, direction: str) -> None:
    link.cut(direction)
    with client_of(link) as client:
        client.sendall(b"hello")
        assert silent(client)
        assert (echo.said, echo.open) == (b"", [])
        assert link.held == {"connections": 1}
        link.heal()
        assert read(client, 5) == b"hello"


def test_who_has_given_up_by_then_never_reaches_it(link: TcpLink, echo: Echo) -> None:
    link.cut("both")
    with client_of(link) as client:
        client.sendall(b"never mind")
    soon("the link to see the connection", lambda: link.held == {"connections": 1})
    time.sleep(QUIET_S)
    link.heal()
    with client_of(link) as other:
        other.sendall(b"later")
        assert read(other, 5) == b"later"
    assert echo.said == b"later"


def test_every_cut_counts_from_nought_and_another_direction_is_refused(link: TcpLink) -> None:
    with pytest.raises(ValueError, match="in, out or both, not 'sideways'"):
        link.cut("sideways")
    with spoken(link) as client:
        link.cut("out")
        client.sendall(b"bcd")
        soon("it to be held", lambda: link.held == {"bytes out": 3})
        link.heal()
        assert read(client, 3) == b"bcd"
        assert link.held == {"bytes out": 3}, "it can be told afterwards"
        link.cut("both")
        assert link.held == {}
        link.heal()


def test_a_server_that_is_down_is_a_connection_that_breaks_and_it_is_found_again(link: TcpLink, echo: Echo) -> None:
    for nobody in (("127.0.0.1", 1), None):
        link.target = nobody
        with pytest.raises(ConnectionResetError), client_of(link) as client:
            client.recv(1)
    link.target = echo.address
    spoken(link).close()


def test_a_link_ends_in_the_middle_of_a_cut(link: TcpLink) -> None:
    with spoken(link) as client:
        link.cut("both")
        client.sendall(b"b")
        link.stop()
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        client_of(link)
    link.heal()


@pytest.mark.parametrize("turns", [0, 3, *(pytest.param(n, marks=pytest.mark.deep) for n in (1, 2, 4, 5, 6, 7))])
def test_a_link_ends_while_it_makes_the_connections_of_a_cut_that_is_just_over(turns: int, link: TcpLink) -> None:
    async def heal_and_end() -> None:
        await link._open()
        for _ in range(turns):
            await asyncio.sleep(0)
        await link._end()

    link.cut("both")
    with client_of(link) as client:
        client.sendall(b"hello")
        soon("the link to see the connection", lambda: link.held == {"connections": 1})
        time.sleep(QUIET_S)
        link._run(heal_and_end())
