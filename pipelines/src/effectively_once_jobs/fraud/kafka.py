"""Clients of the broker as a role needs them: every setting that could make a record wait is off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from effectively_once.errors import SourceError, UnreachableError
from effectively_once.kafka_client import client_config

ANSWER_S = 20.0
FIRST = OFFSET_BEGINNING
AT_ONCE = 500
"""Records that are taken together at most, once there is one."""
MOVING = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)
"""The client connects again by itself."""


def consumer(bootstrap: str, group: str) -> Consumer:
    """A consumer whose caller assigns partitions and commits offsets."""
    return Consumer(
        {
            **client_config(bootstrap),
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.min.bytes": 1,
            "socket.nagle.disable": True,
            "fetch.error.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 16_384,
        }
    )


def producer(bootstrap: str) -> Producer:
    """A producer of scores: each is sent at once, and not again."""
    return Producer(
        {
            **client_config(bootstrap),
            "linger.ms": 0,
            "acks": 1,
            "message.send.max.retries": 0,
            "message.timeout.ms": 1_000,
            "socket.nagle.disable": True,
        }
    )


def partitions(client: Consumer, topic: str) -> list[int]:
    """Numbers of a topic's partitions.

    Raises:
        UnreachableError: the broker does not answer.
        SourceError: there is no such topic.

    """
    try:
        found = client.list_topics(topic, timeout=ANSWER_S).topics[topic]
    except KafkaException as error:
        raise UnreachableError(
            f"the Kafka broker does not answer: {error.args[0].str()}", topic, "Check that it runs."
        ) from error
    if found.error is not None:
        raise SourceError(f"the topic cannot be read: {found.error.str()}", f"topic {topic}", "Make it.")
    return sorted(found.partitions)


def ends(client: Consumer, topic: str, numbers: list[int]) -> dict[int, int]:
    """Partition -> offset of the next record. Raises KafkaException."""
    return {
        number: client.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER_S)[1] for number in numbers
    }


def messages(client: Consumer, wait_s: float) -> Iterator[Message]:
    """Yield what is there; where nothing is, wait for the first record so long at most.

    `Consumer.consume` with a time-out would wait for the last record of a batch.

    Raises:
        SourceError: the topic cannot be read.

    """
    first = client.poll(max(wait_s, 0.0))
    for message in [] if first is None else [first, *client.consume(AT_ONCE, 0)]:
        error = message.error()
        if error is None:
            yield message
        elif not error.retriable() and error.code() not in MOVING:
            raise SourceError(f"a topic cannot be read: {error.str()}", str(message.topic()), "Look at it.")


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def arrival(message: Any) -> int:
    """When the broker took a record, or its sender made it, as the topic is configured."""
    return int(message.timestamp()[1])
