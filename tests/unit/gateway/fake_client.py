"""A Kafka client and broker in memory: answers come when the test says so."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException

Delivered = Callable[[KafkaError | None, object], None]


@dataclass(frozen=True)
class Sent:
    """One copy of a record, as the broker sees it."""

    topic: str
    value: bytes
    key: bytes | None
    headers: dict[str, bytes]
    single: bool


@dataclass
class FakeBroker:
    """Keeps copies. `answers`: whether it acknowledges; `judge` may refuse a copy with an error code."""

    answers: bool = True
    judge: Callable[[Sent], int | None] = lambda _: None
    copies: list[Sent] = field(default_factory=list)
    room: int = 1_000_000
    lock: threading.Lock = field(default_factory=threading.Lock)
    clients: int = 0

    def connect(self, config: dict[str, Any]) -> FakeClient:
        """Stand in for `confluent_kafka.Producer`."""
        if "no.such.setting" in config:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG))
        self.clients += 1
        return FakeClient(self, config, f"client-{self.clients}")

    @property
    def values(self) -> list[str]:
        """Values of the accepted copies, in order."""
        with self.lock:
            return [copy.value.decode() for copy in self.copies]


class FakeClient:
    """Gives every record to the broker at once; the answer is heard in `poll`, if the broker answers."""

    def __init__(self, broker: FakeBroker, config: dict[str, Any], name: str) -> None:
        self.broker, self.config, self.name = broker, config, name
        self.waiting: list[tuple[Delivered, KafkaError | None]] = []
        self.transmitted = 0

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        *,
        headers: list[tuple[str, bytes]] | None,
        on_delivery: Delivered,
    ) -> None:
        if len(self.waiting) >= self.broker.room:
            raise BufferError
        copy = Sent(topic, value, key, dict(headers or []), self.config.get("batch.num.messages") == 1)
        code = self.broker.judge(copy)
        if code == KafkaError._UNKNOWN_TOPIC:
            raise KafkaException(KafkaError(code))
        self.transmitted += 1
        if code is None:
            with self.broker.lock:
                self.broker.copies.append(copy)
        self.waiting.append((on_delivery, None if code is None else KafkaError(code)))

    def poll(self, timeout: float) -> int:
        heard = []
        if self.broker.answers:
            heard, self.waiting = self.waiting, []
        for on_delivery, error in heard:
            on_delivery(error, None)
        return len(heard)

    def tell(self, transmitted: int) -> None:
        """Tell what the client's statistics tell."""
        topics = {"events": {"partitions": {"0": {"txmsgs": transmitted}}}}
        self.config["stats_cb"](json.dumps({"name": self.name, "topics": topics}))

    def purge(self) -> None:
        purged, self.waiting = self.waiting, []
        for on_delivery, _ in purged:
            on_delivery(KafkaError(KafkaError._PURGE_INFLIGHT), None)

    def close(self) -> None:
        assert not self.waiting

    def __len__(self) -> int:
        return len(self.waiting)
