"""A TCP link to a server that loses, delays or cuts its answers: what a network does to an acknowledgement.

Requests always arrive, so whatever the client makes of it, the server did what it was asked.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from types import TracebackType
from typing import Any, Self, TypeVar

from infra.embedded.ports import HOST, free_ports

CHUNK_BYTES = 65536
CALL_TIMEOUT_S = 10.0
T = TypeVar("T")


class Fault(Enum):
    """What happens to answers; requests are forwarded, except by REFUSE."""

    NONE = auto()
    LOSE = auto()
    """They are read and lost: the client runs into its time-out. Afterwards the connections they miss in are reset."""
    HOLD = auto()
    """They arrive when the fault ends: too late for a client with a shorter time-out."""
    CUT = auto()
    """The connection is reset in place of its next answer."""
    REFUSE = auto()
    """Connections are reset at once, and every new one: nothing gets through in either direction."""


class FaultyLink:
    """Listens on `address` and forwards to `host:port`, without faults until `fault()`. A context manager.

    `delay_s` holds every answer back for so long. `hits` counts answers (pieces of the stream) that a fault took, held
    or cut: a test in which it stays 0 has shown nothing. `accepted` counts connections. `target` may be set later, as
    `(host, port)`: until something listens there, connections are reset.
    """

    def __init__(self, host: str = HOST, port: int = 0) -> None:
        self.target = (host, port)
        self.delay_s = 0.0
        self.hits = 0
        self.accepted = 0
        self._fault = Fault.NONE
        self._after = b""
        self._healed = asyncio.Event()
        self._connections: set[_Connection] = set()
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread
        (self.port,) = free_ports(1)

    @property
    def address(self) -> str:
        """`host:port` for clients."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        """Listen."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty link", daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, HOST, self.port))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Reset every connection and stop listening."""
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self._loop.close()

    @contextmanager
    def fault(self, fault: Fault, after: bytes = b"") -> Iterator[None]:
        """Have a fault within the block: on every connection, or on those that have sent `after` since it began."""
        self.begin(fault, after)
        try:
            yield
        finally:
            self.heal()

    def begin(self, fault: Fault, after: bytes = b"") -> None:
        """Begin a fault that lasts until `heal()`."""
        self._run(self._begin(fault, after))

    def heal(self) -> None:
        """End the fault; connections that miss a part of an answer are reset."""
        self._run(self._heal())

    def reset(self) -> None:
        """Reset every connection there is, once."""
        self._run(self._reset(lambda _: True))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_TIMEOUT_S)

    async def _begin(self, fault: Fault, after: bytes) -> None:
        for connection in self._connections:
            connection.sent_mark, connection.tail = False, b""
        self._fault, self._after = fault, after
        self._healed.clear()
        if fault is Fault.REFUSE:
            await self._reset(lambda _: True)

    async def _heal(self) -> None:
        self._fault = Fault.NONE
        self._healed.set()
        await self._reset(lambda connection: connection.broken)

    async def _reset(self, which: Callable[[_Connection], bool]) -> None:
        for connection in filter(which, list(self._connections)):
            connection.reset()

    async def _close(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            server_reader, server_writer = await asyncio.open_connection(*self.target)
        except OSError:
            _reset(writer)
            return
        connection = _Connection(writer, server_writer)
        if self._fault is Fault.REFUSE:
            self.hits += 1
            connection.reset()
            return
        self._connections.add(connection)
        pumps = [
            asyncio.ensure_future(self._requests(connection, reader)),
            asyncio.ensure_future(self._answers(connection, server_reader)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._connections.discard(connection)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            connection.close()

    async def _requests(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        while piece := await _piece(reader):
            # Noted before the server can answer it.
            connection.note(piece, self._after)
            connection.server.write(piece)
            await connection.server.drain()

    async def _answers(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        while piece := await _piece(reader):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            fault = self._fault if connection.sent_mark or not self._after else Fault.NONE
            if fault is not Fault.NONE:
                self.hits += 1
            if fault is Fault.CUT:
                connection.reset()
            if fault is Fault.HOLD:
                await self._healed.wait()
            # Behind a hole nothing makes sense to a client, whatever the fault is by now.
            connection.broken = connection.broken or fault is Fault.LOSE
            if not connection.broken:
                connection.client.write(piece)
                await connection.client.drain()


class _Connection:
    """One connection of a client, and the one to the server that was made for it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client, self.server = client, server
        self.sent_mark = False
        self.broken = False
        self.tail = b""

    def note(self, piece: bytes, mark: bytes) -> None:
        """Look for `mark` in what the client sends, also across two pieces."""
        if mark and not self.sent_mark:
            seen = self.tail + piece
            self.sent_mark, self.tail = mark in seen, seen[-len(mark) :]

    def reset(self) -> None:
        """End both sides by RST; what was not yet delivered is lost."""
        self.broken = True
        _reset(self.client)
        _reset(self.server)

    def close(self) -> None:
        """End both sides in order, after what is still to be delivered."""
        for side in (self.client, self.server):
            side.close()


async def _piece(reader: asyncio.StreamReader) -> bytes:
    """Read what there is, nothing once the connection has ended in whatever way."""
    with suppress(OSError):
        return await reader.read(CHUNK_BYTES)
    return b""


def _reset(writer: asyncio.StreamWriter) -> None:
    side: socket.socket | None = writer.get_extra_info("socket")
    if side is not None and side.fileno() >= 0:
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
