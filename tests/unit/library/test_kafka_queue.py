"""Handing rows to a producer whose queue is full: wait as long as the broker takes some, no longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from confluent_kafka import Producer

from effectively_once.sinks import kafka
from effectively_once.sinks.kafka_shard import Row, ShardAddress

ADDRESS = ShardAddress("localhost:1", "counts", "accepted", 0)
ROWS: list[Row] = [(b"k", bytes([n])) for n in range(10)]


class Queue:
    """The part of a producer that is used, with room for three rows; `broker_takes` rows leave it at each poll."""

    def __init__(self, broker_takes: int) -> None:
        self.waiting: list[bytes] = []
        self.taken: list[bytes] = []
        self._broker_takes = broker_takes

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, on_delivery: Callable[..., None]) -> None:
        if len(self.waiting) == 3:
            raise BufferError("queue full")
        self.waiting.append(value)

    def poll(self, timeout: float) -> int:
        assert timeout > 0
        gone, self.waiting = self.waiting[: self._broker_takes], self.waiting[self._broker_takes :]
        self.taken += gone
        return 0  # reports come of failures alone

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self.waiting)

    def __len__(self) -> int:
        return len(self.waiting)


@pytest.mark.parametrize("pace", [1, 2, 3])
def test_rows_beyond_the_queue_are_sent_in_order_once(pace: int) -> None:
    queue = Queue(pace)
    assert kafka.produce(cast(Producer, queue), 0, ADDRESS.records(ROWS), [])
    assert kafka.flush(cast(Producer, queue))
    assert queue.taken == [value for _, value in ROWS]


def test_a_broker_that_takes_nothing_ends_the_attempt() -> None:
    queue = Queue(0)
    assert not kafka.produce(cast(Producer, queue), 0, ADDRESS.records(ROWS), [])
    assert not kafka.flush(cast(Producer, queue))
