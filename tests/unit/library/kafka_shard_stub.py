"""The producers of one shard of a Kafka sink, one after the other, and what its broker makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from effectively_once.sinks import kafka
from effectively_once.sinks.kafka import MARK_KEY, ShardSink
from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.sinks.publish import Mark

ADDRESS = ShardAddress("broker:1", "counts", "accepted", 2)
Sent = tuple[str, int, bytes | None, bytes]
"""Topic, partition, key and value."""


def kafka_error(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


@dataclass
class Producer:
    """A producer with transactions, which cannot abort: nobody ever should.

    Attributes:
        mark: the shard's last one.
        committed: transactions of the shard.
        open: what is sent in the one that goes on.
        commits: what the next commits fail with; None: not at all.
        applied: whether a commit that fails takes place nevertheless.
        ends: whether one that fails leaves the producer without a transaction.
        begins_again: what a beginning within a transaction fails with.
        undelivered: value of a row -> why it is not delivered, and the topic that the report names.
        room: rows that the queue takes.
        leave: how many rows leave the queue each time it is polled.
        hangs: answers of `end_hanging`; False once there is none left.
        asked: what was asked of the broker beside transactions.
        said: what its sink announced.

    """

    mark: Mark | None = None
    committed: list[list[Sent]] = field(default_factory=list)
    open: list[Sent] | None = None
    commits: list[Exception | None] = field(default_factory=list)
    applied: bool = False
    ends: bool = False
    begins_again: Exception | None = None
    undelivered: Mapping[bytes, tuple[int, str | None]] = field(default_factory=dict)
    room: int = 10**9
    leave: Iterator[int] = field(default_factory=lambda: repeat(10**9))
    hangs: list[bool | Exception] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    _waiting: int = 0

    @classmethod
    def installed(cls, monkeypatch: pytest.MonkeyPatch, mark: Mark | None = None) -> Producer:
        """Let sinks open this one."""
        made = cls(mark)
        monkeypatch.setattr(kafka, "_open", made.open_anew)
        monkeypatch.setattr(kafka, "end_hanging", made.end_hanging)
        monkeypatch.setattr(kafka, "read_mark", made.read_mark)
        return made

    def sink(self) -> ShardSink:
        return ShardSink(ADDRESS, self.said.append)

    def open_anew(self, address: ShardAddress) -> Producer:
        assert address == ADDRESS
        self.asked.append("open")
        self.open, self._waiting = None, 0
        return self

    def end_hanging(self, *asked: object) -> bool:
        assert asked == (ADDRESS, kafka.COMMIT_TIMEOUT_S)
        self.asked.append("hangs")
        answer = self.hangs.pop(0) if self.hangs else False
        if isinstance(answer, Exception):
            raise answer
        return answer

    def read_mark(self, *asked: object) -> Mark | None:
        assert asked == (ADDRESS, kafka.COMMIT_TIMEOUT_S)
        self.asked.append("mark")
        return self.mark

    def begin_transaction(self) -> None:
        if self.open is not None:
            raise self.begins_again or kafka_error(KafkaError._STATE)
        self.open = []

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        partition: int = -1,
        *,
        on_delivery: Callable[..., None],
        **more: Any,
    ) -> None:
        assert not more, "a row has nothing but key and value"
        assert self.open is not None, "outside of a transaction"
        if self._waiting == self.room:
            raise BufferError("queue full")
        self._waiting += 1
        code, named = self.undelivered.get(value, (None, topic))
        if code is None:
            self.open.append((topic, partition, key, value))
        on_delivery(None if code is None else KafkaError(code), SimpleNamespace(topic=lambda: named))

    def poll(self, timeout_s: float) -> int:
        assert timeout_s > 0
        self._waiting -= min(self._waiting, next(self.leave))
        return 0

    def flush(self, timeout_s: float) -> int:
        self.poll(timeout_s)
        return len(self)

    def __len__(self) -> int:
        return self._waiting

    def commit_transaction(self, timeout_s: float) -> None:
        assert timeout_s > 0
        assert self.open is not None
        wrong = self.commits.pop(0) if self.commits else None
        if wrong is None or self.applied:
            self.committed.append(self.open)
            for _, _, key, value in self.open:
                self.mark = Mark(**json.loads(value)) if key == MARK_KEY else self.mark
        if wrong is None or self.ends:
            self.open = None
        if wrong is not None:
            raise wrong
