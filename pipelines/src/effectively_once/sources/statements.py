"""Reads what the sources of an input say of themselves, and tells how far each has come that the chain has read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from effectively_once.kafka_client import client_config
from effectively_once.ledger.offsets import Ranges
from effectively_once.sources.statement import Statement, decode, topic_of

PENDING_MAX = 1_000
"""Statements of a source that wait for the chain; of more every other one is forgotten: time moves in larger steps."""
POLL_S = 0.1

log = structlog.get_logger()


class Pending:
    """Statements that were heard, by source, until the chain has read what they speak of."""

    def __init__(self, topic: str, sources: Iterable[str]) -> None:
        self._topic = topic
        self._waiting: dict[str, list[Statement]] = {source: [] for source in sources}
        self.latest: dict[str, int] = {}
        """The latest time (ms) that each source has said, read or not."""

    def hear(self, statement: Statement) -> None:
        """Take note of one; of a source that is not waited for it says nothing."""
        waiting = self._waiting.get(statement.source)
        if waiting is None:
            return
        waiting.append(statement)
        self.latest[statement.source] = max(statement.time_ms, self.latest.get(statement.source, statement.time_ms))
        if len(waiting) > PENDING_MAX:
            # The last one stays: nothing later may come.
            waiting[:-1] = waiting[:-1:2]

    def take_passed(self, read: Ranges) -> dict[str, int]:
        """Return the latest time (ms) of each source of which ranges that were read hold all before it."""
        found = {}
        for source, waiting in self._waiting.items():
            covered = [one.time_ms for one in waiting if one.covered(self._topic, read)]
            if covered:
                found[source] = max(covered)
                waiting[:] = [one for one in waiting if one.time_ms > found[source]]
        return found


class Statements:
    """The statements about one input topic, read to their end whenever an epoch is declared.

    Args:
        bootstrap: `host:port` of brokers, separated by commas.
        topic: the input topic.
        sources: whose statements count.
        patience_s: how long the broker may take; what was not heard by then holds time, and loses nothing.

    """

    def __init__(self, bootstrap: str, topic: str, sources: Iterable[str], patience_s: float) -> None:
        self._pending, self._patience_s = Pending(topic, sources), patience_s
        self._place = TopicPartition(topic_of(topic), 0, OFFSET_BEGINNING)
        self._consumer = Consumer(
            {
                **client_config(bootstrap),
                "group.id": "sources",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([self._place])
        self._next: int = 0
        self.heard = False
        """Whether the last look read all that was said."""

    def take_passed(self, read: Ranges) -> dict[str, int]:
        """Return how far (ms since 1970) each source has come by what the chain has read, as far as that is new."""
        self.heard = False
        try:
            self.heard = self._hear()
        except KafkaException as error:
            log.warning("what sources say cannot be read: time waits for them", error=str(error))
        return self._pending.take_passed(read)

    @property
    def latest(self) -> Mapping[str, int]:
        """The latest time (ms since 1970) that each source has said, whether the chain has read up to there or not."""
        return self._pending.latest

    def _hear(self) -> bool:
        deadline = time.monotonic() + self._patience_s
        low, end = self._consumer.get_watermark_offsets(self._place, timeout=self._patience_s)
        # What the topic has deleted nobody hears any more.
        self._next = max(self._next, low)
        while self._next < end and time.monotonic() < deadline:
            # No further than was asked for: what is said meanwhile is heard next time.
            for message in self._consumer.consume(min(1_000, end - self._next), POLL_S):
                error, offset = message.error(), message.offset()
                if error is not None:
                    raise KafkaException(error)
                self._next = (offset or 0) + 1
                said = decode(message.value())
                if said is not None:
                    self._pending.hear(said)
        if self._next > end:
            log.warning(
                "the topic of statements ends before what was read of it: time waits for sources",
                topic=self._place.topic,
                end=end,
                read=self._next,
                todo="If it was deleted and created again, start the driver anew.",
            )
        return bool(self._next == end)

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()
