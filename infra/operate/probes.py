"""Does something answer? Asked in its own protocol: a published port may accept with nothing behind it."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable

import urllib3

PATIENCE_S = 3.0
_CORRELATION = 0x0E0C0DE
_API_VERSIONS = 18
_SSL_REQUEST = 80877103
_LONGEST_ANSWER = 1 << 20

Probe = Callable[[str], str | None]
"""None when the address answers, else why not."""


def http(url: str, believed: ssl.SSLContext | None = None) -> str | None:
    """Ask a web server; any answer below 500 is one. `believed`: whose certificate; None: whom everybody trusts."""
    pool = urllib3.PoolManager(timeout=PATIENCE_S, ssl_context=believed)
    try:
        status = pool.request("GET", url, retries=False, redirect=False).status
    except urllib3.exceptions.HTTPError as error:
        return _short(error)
    finally:
        pool.clear()
    return None if status < 500 else f"HTTP {status}"


def kafka(bootstrap: str, believed: ssl.SSLContext | None = None) -> str | None:
    """Ask every broker of host:port[,host:port] for the versions it speaks (Kafka protocol, ApiVersions v0).

    That takes no login. `believed`: whose certificate; None: it speaks plainly.
    """
    bad = [f"{one}: {why}" for one in bootstrap.split(",") if (why := _exchange(one, _broker, believed))]
    return "; ".join(bad) or None


def postgres(address: str) -> str | None:
    """Ask a PostgreSQL server whether it would encrypt (its SSLRequest); either answer is one."""
    host_port = address.rsplit("@", 1)[-1].removeprefix("postgresql://").split("/", 1)[0]
    return _exchange(host_port if ":" in host_port else f"{host_port}:5432", _server)


def listens(host: str, port: int) -> bool:
    """Whether something accepts connections there."""
    try:
        socket.create_connection((host, port), PATIENCE_S).close()
    except OSError:
        return False
    return True


def _exchange(
    address: str, talk: Callable[[socket.socket], str | None], believed: ssl.SSLContext | None = None
) -> str | None:
    host, _, port = address.strip().rpartition(":")
    name = host.strip("[]")
    try:
        with socket.create_connection((name, int(port)), PATIENCE_S) as connection:
            if believed is None:
                return talk(connection)
            with believed.wrap_socket(connection, server_hostname=name) as encrypted:
                return talk(encrypted)
    except (OSError, ValueError, EOFError) as error:
        return _short(error)


def _broker(connection: socket.socket) -> str | None:
    request = struct.pack("!hhih", _API_VERSIONS, 0, _CORRELATION, -1)
    connection.sendall(struct.pack("!i", len(request)) + request)
    length, correlation = struct.unpack("!ii", _exactly(connection, 8))
    speaks_kafka = correlation == _CORRELATION and 0 < length < _LONGEST_ANSWER
    return None if speaks_kafka else "something answers that is no Kafka broker"


def _server(connection: socket.socket) -> str | None:
    connection.sendall(struct.pack("!ii", 8, _SSL_REQUEST))
    return None if _exactly(connection, 1) in (b"S", b"N") else "something answers that is no PostgreSQL"


def _exactly(connection: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        more = connection.recv(count - len(got))
        if not more:
            raise EOFError("the connection was closed without an answer")
        got += more
    return got


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
