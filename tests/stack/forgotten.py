"""A broker made to forget the markers of transactions that it finished, as those with KAFKA-20734 do by themselves."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from effectively_once.sinks.kafka_shard import ShardAddress
from infra.embedded.stack import EmbeddedStack

STATES = "__transaction_state"
COMMITTED, ABORTED = 4, 5
"""Of a transaction whose markers are written, says the coordinator's log."""
STATUS = 16
"""Offset of the state in a record of that log: after version, producer id and epoch, and time-out."""


def forget_markers(stack: EmbeddedStack, shards: Iterable[ShardAddress], state: int) -> None:
    """Note of each shard's open transaction that it is finished. The broker believes it from its next start on.

    The log of transactions takes records from the cluster's administrators only, whom it knows by their client's name.
    """
    bootstrap = stack.endpoints.kafka_bootstrap
    last = _last_states(bootstrap)
    writer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client", "log_level": 0})
    for shard in shards:
        partition, key, value = last[shard.transactional_id]
        writer.produce(STATES, value[:STATUS] + bytes([state]) + value[STATUS + 1 :], key, partition=partition)
    assert writer.flush(30) == 0


def _last_states(bootstrap: str) -> dict[str, tuple[int, bytes, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
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
                # Two bytes of version; the name is the rest, after its length.
                found[key[4:].decode()] = partition, key, value
    consumer.close()
    return found
