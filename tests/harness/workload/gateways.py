"""Registered sources of a workload: who has which record, and how far each says it is in the topic of statements."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self
from zlib import crc32

from confluent_kafka import KafkaException

from effectively_once.gateway.unsent import Unsent
from effectively_once.sources.statement import Statement, topic_of
from tests.harness.workload.record import Planned

GATEWAYS = ("north-gate", "south-gate")
EVERY_S = 0.5
"""Between two statements of one gateway; real ones say it every second."""
ANSWER_S = 0.1
"""For so long the broker's answer is waited for: else it is known only when the next word is said."""
Publish = Callable[[Statement, Callable[[], object]], object]
"""Sends a statement, and calls back once the broker has acknowledged it."""


class Words(Protocol):
    """The part of confluent_kafka.Producer that is used."""

    def produce(
        self, topic: str, value: bytes, key: bytes | None, partition: int, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        """Queue a word."""

    def poll(self, timeout: float) -> int:
        """Serve what the broker answered."""


def publisher(producer: Words, topic: str) -> Publish:
    """Return what sends statements about an input topic to the topic beside it."""

    def publish(said: Statement, delivered: Callable[[], object]) -> None:
        def answer(error: object, _: object) -> None:
            if error is None:
                delivered()

        producer.produce(topic_of(topic), said.encode(), said.source.encode(), 0, on_delivery=answer)
        producer.poll(ANSWER_S)

    return publish


class Lines(Protocol):
    """Where the lines of `sent.jsonl` or `statements.jsonl` go; the caller writes the end line."""

    def write(self, line: dict[str, Any], /) -> object:
        """Append one line."""


def gateway_of(record: Planned, partitions: int) -> str:
    """Which gateway has a record: by user, and evenly within each partition.

    So all partitions go on while one is away, and nothing but its own word holds time.
    """
    return GATEWAYS[(record.n if record.key is None else crc32(record.key)) // partitions % len(GATEWAYS)]


class Gateways:
    """What each gateway has taken and the broker has not acknowledged; while it is open, each says how far it is.

    The word is the product's own (`gateway.unsent`). Their clock is the time of the stream, which is out of order by
    `disorder_ms` until all of it was taken. The sender takes and acknowledges; a thread of its own states.

    Args:
        disorder_ms: by how much a record in time may be behind one that was taken before it.
        away: tells whether a gateway is offline. It says nothing then.
        publish: sends a statement to the topic.
        lines: what was said, and when; and when the broker had it.
    """

    def __init__(self, disorder_ms: int, away: Callable[[str], bool], publish: Publish, lines: Lines) -> None:
        self._disorder_ms, self._away, self._publish, self._lines = disorder_ms, away, publish, lines
        self._high_ms = 0
        self._lock = threading.Lock()
        self._ends: dict[int, int] = {}
        self._unsent = {name: Unsent(0, self._clock_ms) for name in GATEWAYS}
        self._said: dict[str, Statement] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="statements", daemon=True)

    def take(self, record: Planned, gateway: str) -> None:
        """Take note of a record before anything is done with it; one that is late on purpose nobody waits for."""
        if record.moves_watermark and record.event_time_ms is not None:
            # First: a clock that the record itself moves vouches for nothing that it is behind.
            self._unsent[gateway].begin(record.event_time_ms)
            self._high_ms = max(self._high_ms, record.event_time_ms)

    def acknowledge(self, record: Planned, gateway: str, partition: int, offset: int) -> None:
        """Take note of where a record lies."""
        with self._lock:
            self._ends[partition] = max(offset + 1, self._ends.get(partition, 0))
        self.give_up(record, gateway)

    def give_up(self, record: Planned, gateway: str) -> None:
        """Forget a record."""
        if record.moves_watermark and record.event_time_ms is not None:
            self._unsent[gateway].end(record.event_time_ms)

    def all_taken(self) -> None:
        """Know that from now on no record in time is behind one that was taken before it."""
        self._disorder_ms = 0

    @property
    def behind(self) -> int:
        """How many records were put behind what their gateway had said."""
        return sum(one.behind for one in self._unsent.values())

    def state(self) -> None:
        """Have each gateway that is there say how far it is, where that is new."""
        for name, unsent in self._unsent.items():
            if self._away(name) or not self._high_ms:
                continue
            # Before the ends: a record that is acknowledged in between lies before them, and is not vouched for.
            at = unsent.vouch()
            with self._lock:
                offsets = {str(partition): end for partition, end in sorted(self._ends.items())}
            said = Statement(source=name, time_ms=at, offsets=offsets)
            if said != self._said.get(name):
                self._lines.write({"said_at": time.time_ns() // 1_000_000, **said.model_dump()})
                self._publish(said, partial(self._delivered, said))
                self._said[name] = said

    def _delivered(self, said: Statement) -> None:
        at = time.time_ns() // 1_000_000
        self._lines.write({"delivered_at": at, "source": said.source, "time_ms": said.time_ms})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _clock_ms(self) -> int:
        return self._high_ms - self._disorder_ms

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            # What the producer does not take now is said later.
            with suppress(BufferError, KafkaException):
                self.state()
