"""Counts that an arm published, compared with what was sent: an arm that loses rows is quick for the wrong reason."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from effectively_once.kafka_client import client_config
from tests.bench.errors import BenchError

END_S, POLL_S = 30.0, 0.5
AT_ONCE = 10_000
UserWindow = tuple[str, int]
"""A user, and the start of a window in ms."""
Counted = TypeVar("Counted", int, UserWindow)


def values(bootstrap: str, topic: str) -> list[bytes]:
    """What is committed of a topic, each partition's in its order. Raises BenchError as `stream` does."""
    return [*stream(bootstrap, topic)]


def stream(bootstrap: str, topic: str) -> Iterator[bytes]:
    """Yield what is committed of a topic: all of it may be more than memory takes.

    Raises:
        BenchError: the end of the topic was not reached.

    """
    consumer = Consumer(
        {
            **client_config(bootstrap),
            "group.id": "bench-counts",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        parts = list(consumer.list_topics(topic, END_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in parts])
        yield from _values(consumer, topic, len(parts))
    finally:
        consumer.close()


def per_user(lines: Iterable[bytes]) -> dict[UserWindow, int]:
    """Return the count of each user and window; a later one replaces the one before."""
    last: dict[UserWindow, int] = {}
    for value in lines:
        line = orjson.loads(value)
        last[line["user"], line["window_start_ms"]] = line["count"]
    return last


def per_window(lines: Iterable[bytes]) -> dict[int, int]:
    """Sum counts by window."""
    sums: dict[int, int] = {}
    for (_, start), count in per_user(lines).items():
        sums[start] = sums.get(start, 0) + count
    return sums


def window_of(line: bytes) -> int:
    """Return the start (ms) of the window that a result is of."""
    return int(orjson.loads(line)["window_start_ms"])


def compare(
    arm: str, found: Mapping[Counted, int], truth: Mapping[Counted, int], closed_by_ms: int, window_ms: int
) -> int:
    """Compare all windows that end until `closed_by_ms`, whole or user by user, and return how many they are.

    Raises:
        BenchError: a window has another count than was sent.

    """
    due, shown = (
        {key: count for key, count in counts.items() if _start_of(key) + window_ms <= closed_by_ms}
        for counts in (truth, found)
    )
    windows = {_start_of(key) for key in due}
    wrong = sorted(key for key in due.keys() | shown.keys() if shown.get(key, 0) != due.get(key, 0))
    if wrong:
        first = wrong[0]
        raise BenchError(
            f"{arm}: {len({_start_of(key) for key in wrong})} of {len(windows)} windows are wrong; the one at "
            f"{_start_of(first)}{'' if isinstance(first, int) else f' of {first[0]}'} has {shown.get(first, 0):,} "
            f"events, {due.get(first, 0):,} were sent: its speed means nothing"
        )
    return len(windows)


def _start_of(key: int | UserWindow) -> int:
    return key if isinstance(key, int) else key[1]


def _values(consumer: Consumer, topic: str, parts: int) -> Iterator[bytes]:
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
