"""A TCP link in front of a server that can be cut: connections stay open and hear nothing, then the bytes flow again.

The server notices nothing but silence, and so does the client: no byte is lost, none comes out of order, and neither an
end nor a reset of one side reaches the other before the cut is over, as with packets that are dropped and sent again.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from infra.embedded.ports import HOST, free_ports
from tests.harness.results import BOTH, DIRECTIONS, IN, OUT

BLOCK = 65_536
PORT_TRIES, CALL_S = 3, 10.0
RESET = struct.pack("ii", 1, 0)
MADE = "connections"


class TcpLink:
    """Listens on a port of its own and passes on to `target`, which may be set later, go away and come back.

    Directions are those of the clients: `in` is from the server to them, `out` from them to the server. A client that
    connects during a cut is accepted by the kernel here; to the server it connects when the cut is over, and not at all
    if it has given up by then.
    """

    def __init__(self, name: str) -> None:
        """Nothing listens yet; `name` is for threads and messages."""
        self.name = name
        self.target: tuple[str, int] | None = None
        self.port = 0
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None
        self._flows = {one: asyncio.Event() for one in (IN, OUT)}
        self._serving: set[asyncio.Task[Any] | None] = set()

    def start(self) -> None:
        """Listen. Raises OSError when no port can be had."""
        # Not before: a link that is never started has nothing to close.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"{self.name} link", daemon=True)
        self._thread.start()
        for left in range(PORT_TRIES, 0, -1):
            (self.port,) = free_ports(1)
            try:
                self._run(self._listen())
                break
            except OSError:
                if left == 1:
                    self.stop()
                    raise

    def stop(self) -> None:
        """End, with every connection. Safe to repeat."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join(CALL_S)
        self._loop.close()

    def cut(self, direction: str) -> None:
        """Hold back what goes in a direction (`in`, `out`, `both`), from now on; it is counted from nought."""
        if direction not in DIRECTIONS:
            raise ValueError(f"a link is cut in the direction {IN}, {OUT} or {BOTH}, not {direction!r}")
        self._run(self._close([IN, OUT] if direction == BOTH else [direction]))

    def heal(self) -> None:
        """Let everything flow again, what was held back first. Safe to repeat, also when the link has ended."""
        if self._thread is not None:
            self._run(self._open())

    @property
    def held(self) -> dict[str, int]:
        """What was held back since the last cut: bytes by direction, and connections that were not made."""
        with self._lock:
            return dict(sorted(self._held.items()))

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_S)

    def _count(self, what: str, number: int) -> None:
        with self._lock:
            self._held[what] += number

    async def _listen(self) -> None:
        await self._open()
        self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def _open(self) -> None:
        for one in self._flows.values():
            one.set()

    async def _close(self, directions: list[str]) -> None:
        with self._lock:
            self._held.clear()
        for one in directions:
            self._flows[one].clear()

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection, and one to the server."""
        upstream: asyncio.StreamWriter | None = None
        # The loop itself refers to its tasks weakly: one that waits for both ends to go on would be collected.
        this = asyncio.current_task()
        self._serving.add(this)
        try:
            first = await self._await_way(reader)
            if first is None:
                return
            if self.target is None:
                raise ConnectionRefusedError(f"nothing is behind the link of the {self.name}")
            answers, upstream = await asyncio.open_connection(*self.target)
            upstream.write(first)
            await asyncio.gather(self._pump(reader, upstream, OUT), self._pump(answers, writer, IN))
        except OSError:
            # Whoever of the two is gone: the other one sees its connection break, as it would without the link. That
            # is told by a packet too.
            await self._all_flow()
            for side in (writer, upstream):
                if side is not None:
                    _reset(side)
        finally:
            self._serving.discard(this)
            for side in (writer, upstream):
                if side is not None:
                    side.close()

    async def _all_flow(self) -> None:
        while not all(one.is_set() for one in self._flows.values()):
            for one in self._flows.values():
                await one.wait()

    async def _await_way(self, reader: asyncio.StreamReader) -> bytes | None:
        """Wait until a connection can be made; what the client has sent by then, None when it has given up."""
        if all(one.is_set() for one in self._flows.values()):
            return b""
        self._count(MADE, 1)
        early, flows = b"", asyncio.ensure_future(self._all_flow())
        try:
            while not flows.done():
                # More than a block stays with the kernel, and so does an end behind it.
                reading = asyncio.ensure_future(reader.read(BLOCK)) if len(early) < BLOCK else None
                await asyncio.wait([one for one in (flows, reading) if one], return_when=asyncio.FIRST_COMPLETED)
                if reading is None:
                    continue
                if not reading.done():
                    reading.cancel()
                    # Not `await reading`: whoever cancels this task just now would be taken for that cancellation.
                    await asyncio.wait([reading])
                    continue
                block = reading.result()
                if not block:
                    return None
                early += block
            return early
        finally:
            flows.cancel()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        flows = self._flows[direction]
        while block := await reader.read(BLOCK):
            if not flows.is_set():
                self._count(f"bytes {direction}", len(block))
                await flows.wait()
            writer.write(block)
            await writer.drain()
        # An end is a packet too.
        await flows.wait()
        if writer.can_write_eof():
            writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection at once, without the orderly end."""
    side: socket.socket | None = writer.get_extra_info("socket")
    with suppress(OSError):
        if side is not None and side.fileno() >= 0:
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
