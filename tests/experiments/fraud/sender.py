"""Sends transactions at a rate by the clock; what the broker acknowledged, and when it took it, is the ground truth."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from effectively_once.kafka_client import client_config
from tests.harness.run_directory import LinesWriter

FLUSH_S = 30.0


class Sender:
    """One producer; every record goes out by itself.

    Args:
        bootstrap: of the broker.
        topic: takes the records; it keeps the broker's time, not the sender's.
        lines: of `sent.jsonl`.
        stop: set from outside to end early.
    """

    def __init__(self, bootstrap: str, topic: str, lines: LinesWriter, stop: threading.Event) -> None:
        self._producer = Producer(
            {
                **client_config(bootstrap),
                "linger.ms": 0,
                "enable.idempotence": True,
                "socket.nagle.disable": True,
            }
        )
        self._topic, self._lines, self._stop = topic, lines, stop
        self.acknowledged = self.failed = 0

    def send(
        self, phase: int, records: Iterable[tuple[str, bytes]], rate: int, sent: Callable[[int], None] = lambda _: None
    ) -> None:
        """Send the records of a phase, each when it is due, and wait until all are acknowledged.

        Args:
            phase: number of the phase, written beside each.
            records: key and value.
            rate: a second.
            sent: told after each how many are out.

        Raises:
            InterruptedError: `stop` was set.
            RuntimeError: the broker did not take one.
        """
        began = time.monotonic()
        for number, (key, value) in enumerate(records):
            while (wait_s := began + number / rate - time.monotonic()) > 0 or self._stop.is_set():
                if self._stop.is_set():
                    raise InterruptedError("stopped while sending")
                self._producer.poll(wait_s)
            self._producer.produce(self._topic, value, key=key, on_delivery=self._note_delivery(phase, value))
            self._producer.poll(0)
            sent(number + 1)
        left = self._producer.flush(FLUSH_S)
        if left or self.failed:
            raise RuntimeError(f"the broker did not acknowledge {left + self.failed} records")

    def _note_delivery(self, phase: int, value: bytes) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self.failed += 1
                return
            self.acknowledged += 1
            self._lines.write(
                {
                    "phase": phase,
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "arrived_ms": message.timestamp()[1],
                    "payload": value.decode(),
                }
            )

        return note
