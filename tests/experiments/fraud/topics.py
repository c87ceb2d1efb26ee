"""Topics whose records carry the broker's time, and what stands in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from effectively_once.kafka_client import client_config

TIMEOUT_S = 20.0
PARTITIONS = 2
BY_THE_BROKER = {"message.timestamp.type": "LogAppendTime"}


class StampedTopics:
    """Topics of a run, with so many copies."""

    def __init__(self, bootstrap: str, replication: int = 1) -> None:
        self.bootstrap, self._replication = bootstrap, replication
        self._admin = AdminClient(client_config(bootstrap))
        self._consumer = Consumer(
            {
                **client_config(bootstrap),
                "group.id": "effectively-once.observer",
                "enable.auto.commit": False,
            }
        )

    def make(self, names: Iterable[str]) -> None:
        """Make them."""
        wanted = [NewTopic(name, PARTITIONS, self._replication, config=BY_THE_BROKER) for name in names]
        for made in self._admin.create_topics(wanted, operation_timeout=TIMEOUT_S).values():
            made.result(TIMEOUT_S)

    def number(self, name: str) -> int:
        """Records in a topic."""
        return sum(
            self._consumer.get_watermark_offsets(TopicPartition(name, one), timeout=TIMEOUT_S)[1]
            for one in range(PARTITIONS)
        )

    def read(self, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """When the broker took each record, in ms, and its JSON.

        Raises:
            TimeoutError: the end did not come.
        """
        left = self.number(name)
        self._consumer.assign([TopicPartition(name, one, OFFSET_BEGINNING) for one in range(PARTITIONS)])
        while left:
            message = self._consumer.poll(TIMEOUT_S)
            if message is None:
                raise TimeoutError(f"topic {name}: {left} records did not come")
            if message.error() is None:
                left -= 1
                yield message.timestamp()[1], orjson.loads(message.value())

    def close(self) -> None:
        """End the client."""
        self._consumer.close()
