"""Counts that an arm published, compared with what was sent: an arm that loses rows is quick for the wrong reason."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.bench.errors import BenchError

END_S, POLL_S = 30.0, 0.5
AT_ONCE = 10_000


def read_counts(bootstrap: str, topic: str) -> dict[int, int]:
    """Events of each window by its start in ms: the last count of each user, of what is committed.

    Raises:
        BenchError: the end of the topic was not reached.

    """
    return per_window(values(bootstrap, topic))


def values(bootstrap: str, topic: str) -> list[bytes]:
    """What is committed of a topic, each partition's in its order.

    Raises:
        BenchError: the end of the topic was not reached.

    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-counts",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        parts = list(consumer.list_topics(topic, END_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in parts])
        return [*_values(consumer, topic, len(parts))]
    finally:
        consumer.close()


def per_window(lines: Iterable[bytes]) -> dict[int, int]:
    """Sum counts by window; a later count of one user and window replaces the one before."""
    last: dict[tuple[str, int], int] = {}
    for value in lines:
        line = orjson.loads(value)
        last[line["user"], line["window_start_ms"]] = line["count"]
    sums: dict[int, int] = {}
    for (_, start), count in last.items():
        sums[start] = sums.get(start, 0) + count
    return sums


def window_of(line: bytes) -> int:
    """Return the start (ms) of the window that a result is of."""
    return int(orjson.loads(line)["window_start_ms"])


def compare(arm: str, found: Mapping[int, int], truth: Mapping[int, int], closed_by_ms: int, window_ms: int) -> int:
    """Compare all windows that end until `closed_by_ms`, and return how many they are.

    Raises:
        BenchError: a window has another count than was sent.

    """
    due = {start: count for start, count in truth.items() if start + window_ms <= closed_by_ms}
    wrong = [start for start, count in due.items() if found.get(start, 0) != count]
    if wrong:
        first = min(wrong)
        raise BenchError(
            f"{arm}: {len(wrong)} of {len(due)} windows are wrong; the one at {first} has {found.get(first, 0):,} "
            f"events, {due[first]:,} were sent: its speed means nothing"
        )
    return len(due)


def _values(consumer: Consumer, topic: str, parts: int) -> Iterable[bytes]:
    ended: set[int | None] = set()
    deadline = time.monotonic() + END_S
    while len(ended) < parts:
        messages = consumer.consume(AT_ONCE, POLL_S)
        if messages:
            deadline = time.monotonic() + END_S
        elif time.monotonic() > deadline:
            raise BenchError(f"topic {topic}: its end was not reached; is a transaction open?")
        for message in messages:
            error = message.error()
            if error is None:
                yield message.value() or b""
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise BenchError(f"topic {topic}: {error}")
