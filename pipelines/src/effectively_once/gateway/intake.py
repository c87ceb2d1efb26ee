"""Where records come in: bounded (back pressure), and made durable many at a time, so that they share an fsync."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from effectively_once.gateway import frames
from effectively_once.gateway.buffer import Buffer
from effectively_once.gateway.errors import BufferDiskError, BufferFullError, GatewayClosedError
from effectively_once.gateway.limits import Limits
from effectively_once.gateway.record import Record, RecordId

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A record that is not durable yet."""

    id: RecordId
    body: bytes
    future: Future[RecordId] = field(default_factory=Future)


class Intake:
    """Takes records for a buffer and writes them, in the order taken, from a thread of its own.

    `wait`: whether a record beyond the bound waits for room, or is refused. `written` is called after records became
    durable; `obstacle` tells what the sender last ran into, for messages.
    """

    def __init__(
        self,
        buffer: Buffer,
        limits: Limits,
        where: str,
        *,
        wait: bool,
        written: Callable[[], None],
        obstacle: Callable[[], str],
    ) -> None:
        self._buffer = buffer
        self._limits = limits
        self._where = where
        self._wait = wait
        self._written = written
        self._obstacle = obstacle
        lock = threading.Lock()
        self._queued = threading.Condition(lock)
        self._room = threading.Condition(lock)
        self._queue: list[_Waiting] = []
        self._queued_bytes = 0
        self._taken_bytes = buffer.unacknowledged_bytes
        self._closing = False
        self._refusal: GatewayClosedError | None = None
        self.put = 0
        self.last: Future[RecordId] | None = None
        self._thread = threading.Thread(target=self._run, name="gateway writer", daemon=True)
        self._thread.start()

    @property
    def in_buffer_bytes(self) -> int:
        """Bytes taken and not acknowledged."""
        return self._taken_bytes - self._buffer.acknowledged_bytes

    def take(self, record: Record, timeout_s: float | None) -> Future[RecordId]:
        """Take a record; the future is done when it is durable.

        Raises BufferFullError, GatewayClosedError; the future BufferDiskError.
        """
        waiting = _Waiting(record.id, record.encode())
        waiting.future.set_running_or_notify_cancel()  # not to be cancelled any more
        size = frames.HEAD_BYTES + len(waiting.body)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._queued:
            while not self._has_room(size):
                left = None if deadline is None else deadline - time.monotonic()
                # A queue that waits for the disk is no back pressure: that is done in a moment.
                full = self.in_buffer_bytes + size > self._limits.capacity_bytes
                if full and (not self._wait or (left is not None and left <= 0)):
                    raise self._full()
                self._room.wait(left if full else None)
            self._queue.append(waiting)
            self._queued_bytes += size
            self._taken_bytes += size
            self.last = waiting.future
            self._queued.notify()
        return waiting.future

    def look_for_room(self) -> None:
        """Look again whether there is room: something was acknowledged."""
        with self._room:
            self._room.notify_all()

    def refuse(self, reason: GatewayClosedError) -> None:
        """Take nothing more."""
        with self._room:
            self._refusal = self._refusal or reason
            self._room.notify_all()

    def close(self) -> None:
        """Return when everything that was taken is durable, or refused. `refuse` comes first."""
        with self._queued:
            self._closing = True
            self._queued.notify()
        self._thread.join()

    def _has_room(self, size: int) -> bool:
        if self._refusal is not None:
            raise self._refusal
        return (
            self.in_buffer_bytes + size <= self._limits.capacity_bytes
            and self._queued_bytes < self._limits.segment_bytes
        )

    def _run(self) -> None:
        batch: list[_Waiting] = []
        try:
            while batch := self._next_batch():
                self._write(batch)
        except BaseException as error:
            _log.exception("the writer of the gateway stopped")
            self.refuse(GatewayClosedError(f"its writer stopped: {error!r}", self._where, "Open the gateway again."))
            for one in [*batch, *self._queue]:
                if not one.future.done():
                    one.future.set_exception(error)

    def _next_batch(self) -> list[_Waiting]:
        """Wait for records; none when it is closed and all are written."""
        with self._queued:
            self._queued.wait_for(lambda: self._queue or self._closing)
            if self._queue and self._limits.sync_delay_ms:
                self._queued.wait_for(lambda: self._closing, self._limits.sync_delay_ms / 1000)
            batch, self._queue = self._queue, []
            return batch

    def _write(self, batch: list[_Waiting]) -> None:
        failure = None
        try:
            self._buffer.append([one.body for one in batch])
        except OSError as error:
            failure = disk_error(error, self._where)
        size = sum(frames.HEAD_BYTES + len(one.body) for one in batch)
        with self._room:
            self._queued_bytes -= size
            self._taken_bytes -= size if failure else 0
            self.put += 0 if failure else len(batch)
            self._room.notify_all()
        if failure is None:
            self._written()
        for one in batch:
            if failure is None:
                one.future.set_result(one.id)
            else:
                one.future.set_exception(failure)

    def _full(self) -> BufferFullError:
        return BufferFullError(
            f"{self.in_buffer_bytes} bytes are not acknowledged, {self._limits.capacity_bytes} may be; last obstacle: "
            f"{self._obstacle()}",
            self._where,
            "Put it again later, or raise capacity_bytes.",
        )


def disk_error(error: OSError, where: str) -> BufferDiskError:
    """Name what the disk says."""
    return BufferDiskError(
        f"the buffer cannot be kept: {error.strerror or error}", where, "Make room, repair the disk."
    )
