"""What is in one partition of a topic, for a reader who comes late."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

TIMEOUT_S = 30.0


def messages(bootstrap: str, topic: str, partition: int, isolation: str = "read_committed") -> list[Message]:
    """Read a partition from its beginning to its last stable offset, or with read_uncommitted to its high watermark.

    Raises KafkaException for what the broker says, TimeoutError when the end is not reached.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests.reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    found: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    try:
        # Connects: a fetch from a partition whose leader is not known yet would wait for half a second.
        consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    raise TimeoutError(f"the end of {topic} partition {partition} was not reached in {TIMEOUT_S:.0f} s")


def values(bootstrap: str, topic: str, partition: int, isolation: str = "read_committed") -> list[str]:
    """Return the values of a partition's messages as text."""
    return [(message.value() or b"").decode() for message in messages(bootstrap, topic, partition, isolation)]
