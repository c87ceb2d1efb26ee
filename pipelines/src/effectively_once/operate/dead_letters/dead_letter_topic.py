"""Reads the topic of a pipeline's dead letters, as far as it went when the reading began."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from effectively_once.errors import UnreachableError
from effectively_once.kafka_client import client_config
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sinks.dead_letters import Message, of_message
from effectively_once.sinks.kafka_shard import ShardAddress, unreachable
from effectively_once.sinks.leaders import ask_again

BEYOND_S = 30.0
"""Committed readers wait at an open transaction, which the broker ends after its time-out; then something is wrong."""
BATCH = 1000
WAIT_S = 0.1
"""For a batch to fill: the last one of a partition never does."""


class DeadLetterTopic:
    """The dead letters of one pipeline.

    Args:
        settings: those of the pipeline.
        silence_s: how long nothing may come although the end is not reached; by default longer than a transaction.

    """

    def __init__(self, settings: PipelineSettings, silence_s: float | None = None) -> None:
        self._bootstrap, self._patience_s = settings.kafka_bootstrap, settings.start_patience_s
        self._silence_s = settings.transaction_timeout_s + BEYOND_S if silence_s is None else silence_s
        self.name = ShardAddress(settings.kafka_bootstrap, settings.pipeline, DEAD_LETTER, 0).topic

    def __iter__(self) -> Iterator[Message]:
        """Yield every message that is committed now, partition by partition, each in its order.

        Raises:
            SinkError: there is no such topic.
            UnreachableError: the broker does not answer, or the end is not reached.

        """
        try:
            # The high watermark: what is in a transaction that is open now is waited for.
            ends = ask_again(self._patience_s)(self._ends)
            for partition, (first, end) in sorted(ends.items()):
                if end > first:
                    yield from self._partition(partition, end)
        except KafkaException as error:
            raise unreachable(error.args[0], self._bootstrap, self.name) from error

    def _ends(self) -> dict[int, tuple[int, int]]:
        admin = AdminClient(client_config(self._bootstrap))
        topic = admin.list_topics(self.name, timeout=self._patience_s).topics[self.name]
        if topic.error is not None:
            raise KafkaException(topic.error)
        found: list[dict[int, int]] = []
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
            wanted = {TopicPartition(self.name, partition): spec for partition in topic.partitions}
            answers = admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=self._patience_s
            )
            found.append({where.partition: future.result().offset for where, future in answers.items()})
        first, end = found
        return {partition: (first[partition], end[partition]) for partition in first}

    def _partition(self, partition: int, end: int) -> Iterator[Message]:
        consumer = Consumer(
            {
                **client_config(self._bootstrap),
                "group.id": "effectively-once.dead-letters",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,
            }
        )
        try:
            # Connects: a fetch from a partition whose leader is not known yet would wait for half a second.
            consumer.get_watermark_offsets(TopicPartition(self.name, partition), timeout=self._patience_s)
            consumer.assign([TopicPartition(self.name, partition, OFFSET_BEGINNING)])
            yield from _up_to(end, consumer.consume, partition, self._silence_error, self._silence_s)
        finally:
            consumer.close()

    def _silence_error(self, partition: int, reached: int, end: int) -> UnreachableError:
        return UnreachableError(
            f"nothing came for {self._silence_s:g} s, read up to offset {reached} of {end}",
            f"topic {self.name} partition {partition}",
            "Check the broker, and whether a transaction of the pipeline stays open; then run this again.",
        )


def _up_to(
    end: int,
    consume: Callable[..., list[Any]],
    partition: int,
    stuck: Callable[[int, int, int], UnreachableError],
    silence_s: float,
) -> Iterator[Message]:
    """Yield messages below `end`. The end may be a mark of a transaction, which is no message: then EOF tells."""
    reached, heard = 0, time.monotonic()
    while reached < end:
        for message in consume(BATCH, timeout=WAIT_S):
            error, offset = message.error(), message.offset()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if error is None and offset < end:
                yield of_message(message.value(), (partition, offset))
            # EOF tells the offset of the next message there will be.
            now = offset if error is not None else offset + 1
            if now > reached:
                reached, heard = now, time.monotonic()
        if time.monotonic() - heard > silence_s:
            raise stuck(partition, reached, end)
