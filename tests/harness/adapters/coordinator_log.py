"""The log of a broker's coordinator of transactions, read, and written as an administrator can."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from effectively_once.kafka_client import client_config

STATES = "__transaction_state"
PREPARED, COMMITTED, ABORTED = 2, 4, 5
"""A commit was taken, and its markers are to be written; markers are written, of a commit or of its opposite."""
STATUS = 16
"""Where the state is in a record of that log: after version, producer id and epoch, and time-out."""


def note_state(bootstrap: str, transactional_ids: Iterable[str], state: int) -> None:
    """Note the state of open transactions. The broker believes it from its next start on.

    So a broker is made to forget markers (COMMITTED, ABORTED), as those with KAFKA-20734 do by themselves. The log
    takes records from the cluster's administrators only, whom it knows by their client's name.
    """
    last = _last(bootstrap)
    writer = Producer({**client_config(bootstrap), "client.id": "__admin_client", "log_level": 0})
    for transactional_id in transactional_ids:
        partition, key, value = last[transactional_id]
        writer.produce(STATES, value[:STATUS] + bytes([state]) + value[STATUS + 1 :], key, partition=partition)
    assert writer.flush(30) == 0


def state_of(bootstrap: str, transactional_id: str) -> int:
    """Return the last state noted."""
    return _last(bootstrap)[transactional_id][2][STATUS]


def _last(bootstrap: str) -> dict[str, tuple[int, bytes, bytes]]:
    consumer = Consumer(
        {
            **client_config(bootstrap),
            "group.id": "tests.states",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found: dict[str, tuple[int, bytes, bytes]] = {}
    for partition in consumer.list_topics(STATES, timeout=30).topics[STATES].partitions:
        consumer.assign([TopicPartition(STATES, partition, 0)])
        while (message := consumer.poll(30)) is not None:
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                break
            key, value = message.key(), message.value()
            if key and value:
                # Two bytes of version and two of length; the rest is the name.
                found[key[4:].decode()] = partition, key, value
    consumer.close()
    return found
