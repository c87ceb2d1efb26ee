"""Finds the record whose Kafka timestamp Spark's source cannot read, of a range that failed for one.

The source turns it into microseconds for every record, whatever columns are asked for (`KafkaRecordToRowConverter`), so
no version of a pipeline gets past such a record. A Kafka client reads it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, TopicPartition

from effectively_once.errors import SourceError
from effectively_once.ledger.offsets import Ranges

FITS_MS = 9_222 * 10**12
"""Farther than this from 1970, a time may not fit microseconds: up to the last 40 years of them, and no clock's."""
_ACCEPT = (
    "Then run `effectively-once accept-loss --yes`, and start the pipeline again. Bound the times that the topic "
    "takes, as the warning of a start says, so that no other such record comes."
)
_ELSEWHERE = (
    "Then give the pipeline another name to begin anew: its state is Spark's own, so that no loss can be accepted."
)
_NOTHING = ""
BATCH, POLL_S = 1_000, 0.5
PATIENCE_S = 60.0
"""For the whole range. What is not found by then is named without its place."""


class Unreadable(NamedTuple):
    """A record of such a time; `start` is where its partition's range begins."""

    topic: str
    partition: str
    offset: int
    time_ms: int
    start: int


def find(consumer_of: Callable[[], Consumer], ranges: Ranges, patience_s: float = PATIENCE_S) -> Unreadable | None:
    """Read ranges until there is one; None where there is none, or where it was not found in time.

    Args:
        consumer_of: makes a consumer of committed records that tells the end of a partition.
        ranges: [start, end) by topic and partition.
        patience_s: how long it may take.

    """
    until = time.monotonic() + patience_s
    try:
        with closing(consumer_of()) as consumer:
            for topic, partitions in ranges.items():
                for partition, (start, end) in partitions.items():
                    if start < end and (found := _of(consumer, topic, partition, (start, end), until)) is not None:
                        return found
    except KafkaException:
        # The failure has its name even so.
        return None
    return None


def _of(consumer: Any, topic: str, partition: str, span: tuple[int, int], until: float) -> Unreadable | None:
    start, end = span
    consumer.assign([TopicPartition(topic, int(partition), start)])
    while time.monotonic() < until:
        for message in consumer.consume(BATCH, POLL_S):
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return None
                raise KafkaException(error)
            if message.offset() >= end:
                return None
            kind, time_ms = message.timestamp()
            if kind != TIMESTAMP_NOT_AVAILABLE and abs(time_ms) > FITS_MS:
                return Unreadable(topic, partition, message.offset(), time_ms, start)
    return None


def refusal(found: Unreadable | None, topic: str, bootstrap: str, *, stateful: bool) -> SourceError:
    """Say which record it is, and how to go on behind it.

    Args:
        found: the record; None where it was not found.
        topic: the input.
        bootstrap: its broker.
        stateful: whether the pipeline's state is Spark's own, which no loss can be accepted of.

    """
    if found is None:
        return SourceError(
            "a record's Kafka timestamp does not fit microseconds, so Spark's source cannot read it",
            f"topic {topic}",
            "Look for a record whose timestamp is no time of any clock: `kafka-console-consumer.sh --property "
            "print.timestamp=true --property print.offset=true`. Delete its partition's records up to it with "
            f"`kafka-delete-records.sh`. {_ELSEWHERE if stateful else _ACCEPT}",
        )
    wanted = {"topic": found.topic, "partition": int(found.partition), "offset": found.offset + 1}
    file = json.dumps({"version": 1, "partitions": [wanted]})
    unread = f"Copy the records from offset {found.start} on, which are not read either. "
    return SourceError(
        f"a record's Kafka timestamp of {found.time_ms} ms does not fit microseconds, so Spark's source cannot read it",
        f"topic {found.topic} partition {found.partition} offset {found.offset}",
        f"{unread if found.start < found.offset else _NOTHING}Delete its partition's records up to it: "
        f"`kafka-delete-records.sh --bootstrap-server {bootstrap} --offset-json-file FILE`, with {file} in FILE. "
        f"{_ELSEWHERE if stateful else _ACCEPT}",
    )
