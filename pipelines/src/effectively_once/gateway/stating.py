"""Says in a topic beside the records' how far a gateway is: pipelines that know it as a source wait for it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from effectively_once.errors import SettingsError
from effectively_once.gateway.record import Record
from effectively_once.gateway.unsent import Unsent
from effectively_once.sources.statement import Statement, topic_of

ASK_S = 5.0
"""How long the broker may take to tell where the partitions end, before it is asked again."""


@dataclass(frozen=True, slots=True)
class States:
    """How a gateway states how far it is. Raises SettingsError.

    Attributes:
        every_s: between two statements.
        disorder_ms: by how much the event time of a put may be behind the clock, where the program gives it.

    """

    every_s: float = 1.0
    disorder_ms: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.every_s <= 0 or self.disorder_ms < 0:
            raise SettingsError(
                f"every_s is {self.every_s}, disorder_ms {self.disorder_ms}",
                "States of the gateway",
                "every_s has to be more than 0, disorder_ms at least 0.",
            )


class Stating:
    """Makes the statements of one opening of a gateway. `note_acknowledged` and `step` belong to the sender's thread.

    Args:
        producer: the gateway's name.
        incarnation: of this opening.
        topic: of the records.
        states: how often.
        config: of the Kafka client.

    """

    def __init__(
        self, producer: str, incarnation: str, topic: str, states: States, config: Mapping[str, object]
    ) -> None:
        self._producer, self._incarnation, self._topic, self._every_s = producer, incarnation, topic, states.every_s
        self._config = config
        self.unsent = Unsent(states.disorder_ms)
        self._ends: dict[int, int] | None = None
        self._acknowledged: dict[int, int] = {}
        self._last: Statement | None = None
        self._due_s = 0.0
        self._under_way = False

    def note_acknowledged(self, record: Record, message: Message) -> None:
        """Take note of where a record lies. One of an earlier opening was not put here."""
        partition, offset = message.partition(), message.offset()
        assert partition is not None  # noqa: S101 - it is acknowledged
        assert offset is not None  # noqa: S101
        self._acknowledged[partition] = max(offset + 1, self._acknowledged.get(partition, 0))
        if record.id.incarnation == self._incarnation:
            self.unsent.end(record.event_time_ms)

    def step(self, client: Producer, *, caught_up: bool) -> None:
        """Say how far it is, when that is due and new; `caught_up`: what an earlier opening left is acknowledged."""
        if not caught_up or self._under_way or time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + self._every_s
        if self._ends is None and not self._ask():
            return
        said = self._statement()
        if said == self._last:
            return
        self._under_way = True

        def take_delivery(error: object, _: Message | None = None) -> None:
            self._under_way = False
            if error is None:
                self._last = said

        try:
            client.produce(topic_of(self._topic), said.encode(), self._producer.encode(), on_delivery=take_delivery)
        except (BufferError, KafkaException):
            self._under_way = False

    def _statement(self) -> Statement:
        at = self.unsent.vouch()
        ends = self._ends or {}
        offsets = {p: max(ends.get(p, 0), self._acknowledged.get(p, 0)) for p in {*ends, *self._acknowledged}}
        return Statement(source=self._producer, time_ms=at, offsets={str(p): end for p, end in sorted(offsets.items())})

    def _ask(self) -> bool:
        """Ask where the partitions end: what earlier openings sent, of which nobody knows the offsets, lies before."""
        admin = AdminClient({**self._config})
        try:
            known = admin.list_topics(self._topic, timeout=ASK_S).topics[self._topic]
            wanted = {TopicPartition(self._topic, number): OffsetSpec.latest() for number in known.partitions}
            found = admin.list_offsets(wanted, request_timeout=ASK_S)
            self._ends = {place.partition: answer.result().offset for place, answer in found.items()}
        except KafkaException:
            return False
        return bool(self._ends)
