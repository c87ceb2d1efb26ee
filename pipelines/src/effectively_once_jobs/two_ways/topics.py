"""Topics as an operator of dedup reads and writes them: at least once, in the order of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from effectively_once.errors import SourceError, UnreachableError
from effectively_once.kafka_client import client_config
from effectively_once_jobs.two_ways.running import Record
from effectively_once_jobs.two_ways.settings import WaySettings

ANSWER_S = 30.0


class Input:
    """The operator's topic from what was committed, by the offsets that the broker keeps for it.

    Partitions are assigned, not shared out: there is one process for an operator, and no group that has to agree.

    Raises:
        UnreachableError: the broker does not answer.
        SourceError: the topic is not there, or has partitions that would not be read.

    """

    def __init__(self, settings: WaySettings) -> None:
        self._topic, self._bootstrap = settings.reads(settings.operator), settings.kafka_bootstrap
        self._rows_max, self._turn_s = settings.epoch_rows_max, settings.turn_s
        self._consumer = Consumer(
            {
                **client_config(settings.kafka_bootstrap),
                "group.id": f"{settings.pipeline}.{settings.operator}",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
                # Else where committed offsets are gone it goes on with what is left, as if that were all.
                "auto.offset.reset": "error",
            }
        )
        asked = [TopicPartition(self._topic, number) for number in range(settings.shards)]
        try:
            there = self._consumer.list_topics(self._topic, ANSWER_S).topics[self._topic].partitions
            if len(there) != settings.shards:
                raise SourceError(
                    f"the topic has {len(there)} partitions, and shards is {settings.shards}",
                    f"topic {self._topic}",
                    "Make it with as many partitions as there are shards.",
                )
            known = self._consumer.committed(asked, timeout=ANSWER_S)
        except KafkaException as error:
            raise _silent(error, self._bootstrap) from error
        # An offset below 0 says that nothing was committed.
        self._consumer.assign(
            [
                TopicPartition(self._topic, one.partition, one.offset if one.offset >= 0 else OFFSET_BEGINNING)
                for one in known
            ]
        )
        self._ends: dict[int, int] = {}

    def read(self) -> Sequence[Record]:
        """See Source."""
        found = [message for message in self._consumer.consume(self._rows_max, self._turn_s) if self._whole(message)]
        for message in found:
            self._ends[message.partition()] = message.offset() + 1
        return [Record.decode(message.value()) for message in found]

    def commit(self) -> None:
        """See Source."""
        offsets = [TopicPartition(self._topic, partition, end) for partition, end in self._ends.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise _silent(error, self._bootstrap) from error
        self._ends.clear()

    def _whole(self, message: Message) -> bool:
        error = message.error()
        if error is not None and not error.retriable():
            raise SourceError(f"the topic cannot be read: {error.str()}", f"topic {self._topic}", "Look at it.")
        return error is None


class Output:
    """The next operator's topic. A record of a user follows the one before, as the producer is idempotent."""

    def __init__(self, settings: WaySettings) -> None:
        self._topic, self._bootstrap = settings.reads(settings.operator + 1), settings.kafka_bootstrap
        self._partitions = settings.shards
        self._producer = Producer(
            {
                **client_config(settings.kafka_bootstrap),
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "compression.type": "lz4",
                "log_level": 3,
            }
        )

    def pass_on(self, records: Sequence[Record]) -> None:
        """Publish records; on return the broker has acknowledged them all.

        Raises:
            UnreachableError: it has not; some may be there.

        """
        refused: list[str] = []

        def take_delivery(error: object, _: Message) -> None:
            if error is not None:
                refused.append(str(error))

        for record in records:
            where = crc32(record.user.encode()) % self._partitions
            self._producer.produce(self._topic, record.encode(), record.user.encode(), where, on_delivery=take_delivery)
            self._producer.poll(0)
        if self._producer.flush(ANSWER_S) or refused:
            raise UnreachableError(
                f"the Kafka broker did not acknowledge: {(refused or ['no answer'])[0]}",
                self._bootstrap,
                "Check that it runs; nothing was committed, start the operator again.",
            )


def _silent(error: KafkaException, bootstrap: str) -> UnreachableError:
    return UnreachableError(
        f"the Kafka broker does not answer: {error.args[0].str()}",
        bootstrap,
        "Check that it runs; what was not committed is read again, start the operator again.",
    )
