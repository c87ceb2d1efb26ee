"""What a shard of a Kafka sink shows, read back: all of it, or the messages that were committed with its last mark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger import digest
from effectively_once.sinks.kafka_shard import Row, ShardAddress, consumer_of, ends, unreachable
from effectively_once.sinks.publish import Mark

BEYOND = 1024
"""Offsets that are no messages of the epoch: marks of transactions, and what aborted ones left."""
WIDER = 16
BATCH = 10_000
Placed = tuple[int, Row]
"""Offset, and key and value."""


@dataclass(frozen=True, slots=True)
class ShownMessages:
    """The messages of an epoch, and their offsets in the sink's topic."""

    values: list[bytes]
    first: int
    last: int


def read_rows(address: ShardAddress, mark: Mark, timeout_s: float = 20.0) -> ShownMessages:
    """Read the rows that were published with the shard's last mark; of no rows nothing is read.

    Raises:
        SinkError: the topic does not end with these rows: it lost them, or somebody else wrote to it.
        UnreachableError: the broker does not answer.

    """
    if not mark.rows:
        return ShownMessages([], -1, -1)
    with _open_reader(address, "read_committed") as consumer:
        low, high = ends(consumer, TopicPartition(address.topic, address.shard), timeout_s)
        back = mark.rows + BEYOND
        while True:
            begin = max(low, high - back)
            consumer.assign([TopicPartition(address.topic, address.shard, begin)])
            found = _last(consumer, mark.rows, high, timeout_s, address)
            # Rows and mark are one transaction, and it is the last: so they are the last rows there are.
            values = [value for _, (_, value) in found]
            if len(found) == mark.rows and digest.of_rows(values, mark.digest) == mark.digest:
                return ShownMessages(values, found[0][0], found[-1][0])
            if begin == low:
                raise SinkError(
                    f"the topic does not end with the {mark.rows} rows of epoch {mark.epoch} that the progress mark "
                    "tells of",
                    f"topic {address.topic} partition {address.shard}",
                    "It lost them, or somebody else writes to it. Restore chain and sinks from one backup.",
                )
            back *= WIDER


def read_from(address: ShardAddress, start: int, timeout_s: float = 20.0) -> list[bytes]:
    """Read every row that was written from an offset on, committed or not. Raises UnreachableError."""
    with _open_reader(address, "read_uncommitted") as consumer:
        where = TopicPartition(address.topic, address.shard, start)
        _, high = ends(consumer, where, timeout_s)
        consumer.assign([where])
        return [value for _, (_, value) in _last(consumer, None, high, timeout_s, address)]


def read_all(address: ShardAddress, timeout_s: float = 20.0) -> list[Placed]:
    """Read every row that committed readers see by now. Raises UnreachableError."""
    with _open_reader(address, "read_committed") as consumer:
        low, high = ends(consumer, TopicPartition(address.topic, address.shard), timeout_s)
        if low >= high:
            return []
        consumer.assign([TopicPartition(address.topic, address.shard, low)])
        return [*_last(consumer, None, high, timeout_s, address)]


def was_written(address: ShardAddress, timeout_s: float = 20.0) -> bool:
    """Whether anything was ever written to a shard's topic. Raises UnreachableError."""
    with _open_reader(address, "read_uncommitted") as consumer:
        _, high = ends(consumer, TopicPartition(address.topic, address.shard), timeout_s)
        return high > 0


@contextmanager
def _open_reader(address: ShardAddress, isolation: str) -> Iterator[Consumer]:
    with closing(consumer_of(address.bootstrap, isolation)) as consumer:
        try:
            yield consumer
        except KafkaException as error:
            raise unreachable(error.args[0], address.bootstrap, address.topic) from error


def _last(consumer: Consumer, rows: int | None, end: int, timeout_s: float, address: ShardAddress) -> deque[Placed]:
    """Read up to the end, and keep so many of the last messages, or all; EOF tells where a marker stands."""
    kept: deque[Placed] = deque(maxlen=rows)
    while True:
        messages = consumer.consume(BATCH, timeout=0.1) or consumer.consume(1, timeout=timeout_s)
        if not messages:
            raise UnreachableError(
                f"the end of {address.topic} partition {address.shard} was not reached in {timeout_s:.0f} s",
                address.bootstrap,
                "Check the broker.",
            )
        for message in messages:
            error, offset = message.error(), message.offset() or 0
            if error is None and offset < end:
                kept.append((offset, (message.key(), message.value() or b"")))
            elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if offset >= end or (error is None and offset == end - 1):
                return kept
