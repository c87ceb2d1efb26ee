"""A way to a pod's port: every connection is dialled for itself, and what fails ends that connection alone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from infra.embedded.ports import HOST
from tests.harness.adapters.tunnel import Tunnel
from tests.unit.harness.sleepers import soon


class Servers:
    """Servers that answer with their name and what they were told, of which the newest is the one that is dialled."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.left: list[str] = []
        # As a port forward does: nothing is closed because nobody knows it any more.
        self.dialled: list[socket.socket] = []

    def dial(self) -> socket.socket:
        if not self.names:
            raise ConnectionError("no pod is ready")
        near, far = socket.socketpair()
        self.dialled.append(near)
        threading.Thread(target=self._serve, args=(far, self.names[-1]), daemon=True).start()
        return near

    def _serve(self, end: socket.socket, name: str) -> None:
        with end:
            while data := end.recv(1 << 20):
                end.sendall(name.encode() + data)
                if data == b"bye":
                    break
        self.left.append(name)


@contextmanager
def tunnel(servers: Servers) -> Iterator[Tunnel]:
    one = Tunnel(servers.dial)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def connected(one: Tunnel) -> socket.socket:
    return socket.create_connection((HOST, one.port), timeout=5)


def test_each_connection_goes_where_the_server_is_by_then() -> None:
    servers = Servers()
    with tunnel(servers) as one:
        servers.names.append("first ")
        with connected(one) as before:
            before.sendall(b"a")
            assert before.recv(99) == b"first a"
            servers.names.append("second ")
            with connected(one) as after:
                after.sendall(b"b")
                assert after.recv(99) == b"second b"
            before.sendall(b"c")
            assert before.recv(99) == b"first c"
    soon("both ends to have left", lambda: sorted(servers.left) == ["first ", "second "])


def test_a_connection_that_cannot_be_dialled_ends_and_the_next_one_succeeds() -> None:
    servers = Servers()
    with tunnel(servers) as one:
        with connected(one) as refused:
            assert refused.recv(99) == b""
        assert one.trouble == "ConnectionError: no pod is ready"
        servers.names.append("back ")
        with connected(one) as again:
            again.sendall(b"a")
            assert again.recv(99) == b"back a"


def test_the_end_of_the_far_side_is_the_end_of_the_connection() -> None:
    servers = Servers()
    servers.names.append("")
    with tunnel(servers) as one, connected(one) as near:
        near.sendall(b"bye")
        assert near.recv(99) == b"bye"
        assert near.recv(99) == b""


def test_stopping_ends_every_connection_and_nothing_listens_any_more() -> None:
    servers = Servers()
    servers.names.append("")
    with tunnel(servers) as one:
        port = one.port
        with connected(one) as near:
            near.sendall(b"a")
            assert near.recv(99) == b"a"
            one.stop()
            one.stop()
            assert near.recv(99) == b""
    soon("the far end to have left", lambda: servers.left)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((HOST, port), timeout=5)
