"""What readers of committed results see of each window, and when: the same question to whoever published it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.bench import counts
from tests.bench.counts import END_S

POLL_S = 0.05


@dataclass(frozen=True)
class Visible:
    """Results as they came.

    Attributes:
        lines: each result.
        at_ms: when the last result of a window was seen, ms since 1970, by the window's start.

    """

    lines: list[bytes] = field(default_factory=list)
    at_ms: dict[int, float] = field(default_factory=dict)

    def see(self, line: bytes, t_ms: float) -> None:
        """Take in a result."""
        self.lines.append(line)
        self.at_ms[counts.window_of(line)] = t_ms

    def counted(self) -> dict[int, int]:
        """Return how many events are counted so far, by window."""
        return counts.per_window([*self.lines])


@contextmanager
def watch_results(bootstrap: str, topic: str) -> Iterator[Visible]:
    """Read a topic of results from its beginning for the time of the block, as far as it is committed."""
    visible, ended = Visible(), threading.Event()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-visible",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
    )
    parts = list(consumer.list_topics(topic, END_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in parts])
    reader = threading.Thread(target=_read, args=(consumer, visible, ended), daemon=True)
    reader.start()
    try:
        yield visible
    finally:
        ended.set()
        reader.join()
        consumer.close()


def _read(consumer: Consumer, visible: Visible, ended: threading.Event) -> None:
    while not ended.is_set():
        messages = consumer.consume(counts.AT_ONCE, POLL_S)
        t_ms = time.time() * 1000
        for message in messages:
            if message.error() is None:
                visible.see(message.value() or b"", t_ms)
