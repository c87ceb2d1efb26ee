"""Records for the deployed pipeline while alerts are raised: a few a second, of which some may be malformed."""

from __future__ import annotations

import random
import threading
import time
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

from effectively_once.kafka_client import client_config
from tests.harness.workload.record import partition_of_user, well_formed

RATE, USERS = 20, 50
BAD = b"no JSON"
PRODUCER = {"linger.ms": 20, "message.timeout.ms": 600_000, "log_level": 0}


class Feed:
    """Sends in a thread of its own while the block lasts; a broker that is away gets the records later.

    Args:
        bootstrap: of the broker, as this machine reaches it.
        topic: the input.
        partitions: of the topic.
        run: begins each id.

    Attributes:
        bad_share: of the records, malformed.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, run: str) -> None:
        self._topic, self._partitions, self._run = topic, partitions, run
        self._producer: Any = Producer({**client_config(bootstrap), **PRODUCER})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send, name="feed", daemon=True)
        self._drawn = random.Random(run)
        self.bad_share = 0.0

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; what the broker has not taken is given up."""
        self._over.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(5)

    def make(self, number: int, now_ms: int) -> tuple[int, bytes | None, bytes]:
        """Return partition, key and value of a record."""
        user = f"u{number % USERS}"
        if self._drawn.random() < self.bad_share:
            return number % self._partitions, None, BAD
        one = well_formed(number, f"{self._run}-{number}", user, now_ms, "")
        return partition_of_user(user, self._partitions), one.key, one.value

    def _send(self) -> None:
        number = 0
        while not self._over.wait(1 / RATE):
            partition, key, value = self.make(number, time.time_ns() // 1_000_000)
            try:
                self._producer.produce(self._topic, value, key, partition)
            except BufferError:
                # The broker is away for longer than the queue holds: what comes now is not sent.
                self._over.wait(1.0)
            self._producer.poll(0)
            number += 1
