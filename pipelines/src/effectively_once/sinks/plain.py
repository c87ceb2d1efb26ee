"""A Kafka sink that publishes at least once: no transaction and no mark, so a repeat is visible again.

For readers that deduplicate by themselves, and to measure what exactly-once costs.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaException, Producer

from effectively_once.errors import UnreachableError
from effectively_once.kafka_client import client_config
from effectively_once.ledger.rows import Rows
from effectively_once.sinks.kafka import CLIENT, Failure, describe, flush, produce
from effectively_once.sinks.kafka_shard import Row, ShardAddress, unreachable
from effectively_once.sinks.publish import Published


class PlainSink:
    """Publishes the epochs of one shard, every one as often as it is asked to."""

    def __init__(self, address: ShardAddress) -> None:
        self.address = address
        # Kept in order and free of the client's own repeats: only those of the pipeline are to be seen.
        self._producer = Producer({**client_config(address.bootstrap), **CLIENT, "enable.idempotence": True})

    def publish(self, epoch: int, generation: int, rows: Sequence[Row]) -> tuple[Rows, Published]:  # noqa: ARG002
        """Send an epoch's rows and wait until the broker has them.

        Raises:
            UnreachableError: it does not take them; some may be visible.
            SinkError: the topic is missing.

        """
        failures: list[Failure] = []
        try:
            there = produce(self._producer, self.address.shard, self.address.records(rows), failures)
            there = there and flush(self._producer)
        except KafkaException as error:
            raise unreachable(error.args[0], self.address.bootstrap, self.address.topic) from error
        if failures:
            raise unreachable(failures[0][0], self.address.bootstrap, self.address.topic)
        if not there:
            raise UnreachableError(
                "the Kafka broker stopped taking rows", self.address.bootstrap, "Check that it runs."
            )
        return describe(rows), Published.NOW
