"""The gateway: what a program calls that has records to send."""

from __future__ import annotations

import itertools
import logging
import re
import threading
import time
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, overload

from effectively_once.errors import SettingsError
from effectively_once.gateway.buffer import Buffer, Repair
from effectively_once.gateway.errors import GatewayClosedError, UndeliveredError
from effectively_once.gateway.intake import Intake, disk_error
from effectively_once.gateway.limits import Limits
from effectively_once.gateway.record import Build, Record, RecordId, check_bytes, check_size, check_time
from effectively_once.gateway.sender import Config, Sender, client_config
from effectively_once.gateway.stating import States, Stating
from effectively_once.gateway.unsent import clock_ms

IDLE_S = 0.5
"""How often a sender with nothing to do looks at its client all the same."""
_PRODUCER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Counters:
    """Records since this gateway was opened, and the bytes that are unacknowledged now.

    `sent` counts copies, `resent` those among them that may be a second one: records that an earlier opening left, and
    what had to be sent again (the client tells of the latter once a second). `behind` counts records whose event time
    is before what was stated when they were put: they may be late.
    """

    put: int
    sent: int
    acknowledged: int
    resent: int
    in_buffer_bytes: int
    behind: int = 0


class Gateway:
    """Sends records to a topic at least once, each with one id for ever: a duplicate is recognised by it.

    Args:
        directory: of the buffer, for this gateway alone, on a disk that survives a restart.
        producer: name in the ids: letters, digits, `.`, `_`, `-`, at most 64.
        topic: where records go. It must exist; while it does not, or the broker is away, records wait.
        bootstrap: `host:port` of brokers, separated by commas.
        build: makes the value on the wire from id, event time and what is put. Without it what is put must be bytes,
            goes as it is, and id and event time go as the headers `id` and `event-time-ms`. See `json_record`.
        limits: bounds.
        when_full: `raise`: a put beyond the bound raises BufferFullError; `wait`: it waits for acknowledgements.
        config: more of the Kafka client's configuration (security, compression).
        states: how often it says how far it is, for pipelines that have it among their `sources`. None: never.
        announce: told `buffered` when records are durable, `acknowledged` when the broker has answered and before that
            is recorded. From threads of the gateway.

    Opening it sends on what an earlier opening left, in the order of its puts. The broker need not answer. Threads may
    share it; a forked process may not.

    Raises SettingsError, BufferLockedError, BufferFormatError, BufferDiskError.

    """

    def __init__(
        self,
        directory: Path | str,
        *,
        producer: str,
        topic: str,
        bootstrap: str,
        build: Build | None = None,
        limits: Limits | None = None,
        when_full: Literal["raise", "wait"] = "raise",
        config: Config | None = None,
        states: States | None = None,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._where = str(directory)
        self._limits = limits or Limits()
        _check(producer, when_full)
        self._producer = producer
        self._build = build
        self._announce = announce
        self._sequence = itertools.count()
        try:
            self._buffer = Buffer(Path(directory), producer, topic, self._limits.segment_bytes)
        except OSError as error:
            raise disk_error(error, self._where) from error
        try:
            self._stating = (
                None
                if states is None
                else Stating(
                    producer,
                    self._buffer.incarnation,
                    topic,
                    states,
                    client_config(bootstrap, self._limits, config or {}),
                )
            )
            self._sender = Sender(
                self._buffer,
                topic,
                bootstrap,
                self._limits,
                config=config or {},
                announce=announce,
                stating=self._stating,
            )
        except BaseException:
            self._buffer.close()
            raise
        for repair in self._buffer.repairs:
            _log.warning("%s", repair)
        lock = threading.Lock()
        self._unsent = threading.Condition(lock)
        self._settled = threading.Condition(lock)
        self._stopping = False
        self._failure: BaseException | None = None
        self._intake = Intake(
            self._buffer,
            self._limits,
            self._where,
            wait=when_full == "wait",
            written=self._wake_sender,
            obstacle=self._obstacle,
        )
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="gateway sender", daemon=True)
        self._thread.start()

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What opening it passed over in the buffer; also logged as warnings."""
        return tuple(self._buffer.repairs)

    @property
    def counters(self) -> Counters:
        """Numbers of now."""
        sender = self._sender
        behind = 0 if self._stating is None else self._stating.unsent.behind
        return Counters(
            self._intake.put, sender.sent, sender.acknowledged, sender.resent, self._intake.in_buffer_bytes, behind
        )

    @overload
    def put(
        self,
        value: Any,
        *,
        key: bytes | str | None = ...,
        event_time_ms: int | None = ...,
        wait: Literal[True] = ...,
        timeout_s: float | None = ...,
    ) -> RecordId: ...

    @overload
    def put(
        self,
        value: Any,
        *,
        key: bytes | str | None = ...,
        event_time_ms: int | None = ...,
        wait: Literal[False],
        timeout_s: float | None = ...,
    ) -> Future[RecordId]: ...

    def put(
        self,
        value: Any,
        *,
        key: bytes | str | None = None,
        event_time_ms: int | None = None,
        wait: bool = True,
        timeout_s: float | None = None,
    ) -> RecordId | Future[RecordId]:
        """Accept a record: give it its id and event time, for ever, and return when it is on the disk.

        Args:
            value: what `build` takes, or bytes.
            key: Kafka's key; records of one key keep their order.
            event_time_ms: ms since 1970, by default now.
            wait: False: return at once a future of the id, which is done when the record is on the disk.
            timeout_s: with `when_full="wait"`, how long to wait for room; None: for ever.

        Raises:
            RecordError: it cannot be sent as it is.
            BufferFullError: the bound of unacknowledged bytes is reached.
            BufferDiskError: the disk is full or fails (also out of the future).
            GatewayClosedError: the gateway is closed.

        After an error nothing was accepted, and the put can be repeated. Whoever dies before it returns does not know:
        a repeat of that one is another record, with another id.

        """
        time_ms = self._begin(event_time_ms)
        try:
            durable = self._take(value, key, time_ms, timeout_s)
        except BaseException:
            self._give_up(time_ms)
            raise
        if self._stating is not None:
            durable.add_done_callback(lambda done: self._give_up(time_ms) if done.exception() else None)
        return durable.result() if wait else durable

    def _begin(self, event_time_ms: int | None) -> int:
        given = None if event_time_ms is None else check_time(event_time_ms)
        if self._stating is not None:
            return self._stating.unsent.begin(given)
        return clock_ms() if given is None else given

    def _give_up(self, time_ms: int) -> None:
        if self._stating is not None:
            self._stating.unsent.end(time_ms)

    def _take(self, value: Any, key: bytes | str | None, time_ms: int, timeout_s: float | None) -> Future[RecordId]:
        identity = RecordId(self._producer, self._buffer.incarnation, next(self._sequence))
        content = check_bytes("value", value if self._build is None else self._build(identity, time_ms, value))
        if key is not None:
            key = check_bytes("key", key.encode(errors="surrogatepass") if isinstance(key, str) else key)
        record = Record(identity, time_ms, key, content, announced=self._build is None)
        return self._intake.take(check_size(record, self._limits.record_bytes_max), timeout_s)

    def flush(self, timeout_s: float | None = None) -> None:
        """Return when everything that was put before is acknowledged.

        Raises UndeliveredError after `timeout_s`, with the last obstacle: the records stay and are sent on.
        GatewayClosedError when the gateway is closed meanwhile.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        last = self._intake.last
        if last is not None:
            futures.wait([last], timeout_s)
        end = self._buffer.end
        with self._settled:
            while self._buffer.acknowledged < end or (last is not None and not last.done()):
                if self._stopping or self._failure is not None:
                    raise self._closed_error()
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise UndeliveredError(
                        f"{self._intake.in_buffer_bytes} bytes are not acknowledged after {timeout_s} s; last "
                        f"obstacle: {self._obstacle()}",
                        self._where,
                        "They stay in the buffer and are sent on; check the broker and the topic.",
                    )
                self._settled.wait(left)

    def close(self, timeout_s: float = 10.0) -> None:
        """Accept no more, wait so long for acknowledgements, and let go of the directory. Safe to repeat.

        What is not acknowledged by then stays in the buffer, for the next opening.
        """
        if self._closing:
            return
        self._closing = True
        self._intake.refuse(self._closed_error())
        self._intake.close()
        try:
            with suppress(UndeliveredError, GatewayClosedError):
                self.flush(timeout_s)
        finally:
            with self._unsent:
                self._stopping = True
                self._unsent.notify()
                self._settled.notify_all()
            self._thread.join()
            self._sender.close()
            self._buffer.close()

    def __enter__(self) -> Self:
        """Use it in a block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _wake_sender(self) -> None:
        self._announce("buffered")
        with self._unsent:
            self._unsent.notify()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._step()
        except BaseException as error:
            _log.exception("the sender of the gateway stopped")
            with self._settled:
                self._failure = error
                self._settled.notify_all()
            self._intake.refuse(self._closed_error())

    def _step(self) -> None:
        before = self._buffer.acknowledged
        busy = self._sender.step()
        if self._buffer.acknowledged != before:
            self._intake.look_for_room()
        with self._unsent:
            self._settled.notify_all()
            if not (busy or self._buffer.unread or self._stopping):
                self._unsent.wait(IDLE_S)

    def _closed_error(self) -> GatewayClosedError:
        what = "the gateway is closed" if self._failure is None else f"its sender stopped: {self._failure!r}"
        return GatewayClosedError(what, self._where, "Open it again; what was accepted is in the buffer.")

    def _obstacle(self) -> str:
        return self._sender.obstacle or "none, the broker is slow"


def _check(producer: str, when_full: str) -> None:
    if not _PRODUCER.fullmatch(producer):
        raise SettingsError(
            f"producer is {producer!r}", "Gateway", "Use 1 to 64 letters, digits, dots, underscores and dashes."
        )
    if when_full not in ("raise", "wait"):
        raise SettingsError(f"when_full is {when_full!r}", "Gateway", "It must be 'raise' or 'wait'.")
