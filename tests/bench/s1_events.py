"""The records of S1, events per user and minute: seeded, about 85 bytes each, few users with most of the events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Producer
from numpy.typing import NDArray

from effectively_once.kafka_client import client_config
from tests.bench.errors import BenchError

PARTITIONS = 4
WINDOW_MS = 60_000
START_MS = 1_750_000_020_000  # a whole minute
FLUSH_S = 120.0
LEAST_BYTES = 86
"""Of an event without payload."""
_CHUNK = 100_000
_SPREAD = 0x5DEECE66D  # odd: n times this, modulo 2**40, is another number for every n
_COPY_WITHIN = 5_000
OUT_OF_ORDER_MS = 2_000

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Events:
    """A stream of events, the same for the same fields.

    Attributes:
        records: all of them, copies included.
        users: of which few have most of the events (Zipf, exponent 1.05).
        span_ms: event time from the first record to the last.
        duplicates: share of records that are copies of one of the 5,000 before them.
        record_bytes: size of a record, whose payload fills it up; one below `LEAST_BYTES` is as small as it can be.

    """

    records: int
    users: int = 100_000
    span_ms: int = 20 * 60_000
    duplicates: float = 0.05
    seed: int = 1
    record_bytes: int = 0

    def columns(self) -> tuple[Whole, Whole, Whole]:
        """Number of the id, rank of the user, and event time in ms, record by record."""
        rng = np.random.default_rng(self.seed)
        numbers = np.arange(self.records)
        copies = rng.permutation(self.records)[: int(self.records * self.duplicates)]
        copies = copies[copies > 0]
        back = np.minimum(rng.integers(1, _COPY_WITHIN + 1, len(copies)), copies)
        originals = numbers.copy()
        originals[copies] -= back
        # A copy may be drawn of a copy: it is one of the same original.
        while not np.array_equal(originals, originals[originals]):
            originals = originals[originals]
        weights = np.arange(1, self.users + 1) ** -1.05
        ranks = np.searchsorted(np.cumsum(weights / weights.sum())[:-1], rng.random(self.records), side="right")
        times = START_MS + OUT_OF_ORDER_MS + numbers * self.span_ms // self.records
        times -= rng.integers(0, OUT_OF_ORDER_MS + 1, self.records)
        return originals, ranks[originals], times[originals]

    def values(self) -> Iterator[bytes]:
        """Values as they are sent."""
        columns = self.columns()
        for start in range(0, self.records, _CHUNK):
            part = slice(start, start + _CHUNK)
            for number, rank, time_ms in zip(*(column[part].tolist() for column in columns), strict=True):
                yield value(number, rank, time_ms, self.record_bytes)

    def per_window(self, *, copies: bool, window_ms: int = WINDOW_MS) -> dict[int, int]:
        """Events of each window by its start in ms, with copies counted or not."""
        originals, _, times = self.columns()
        counted = times if copies else times[originals == np.arange(self.records)]
        starts, numbers = np.unique(counted - counted % window_ms, return_counts=True)
        return dict(zip(starts.tolist(), numbers.tolist(), strict=True))

    def per_user(self, *, copies: bool) -> dict[tuple[str, int], int]:
        """Events of each user and window (its start in ms), with copies counted or not."""
        originals, ranks, times = self.columns()
        counted = slice(None) if copies else originals == np.arange(self.records)
        numbers = (times - START_MS) // WINDOW_MS
        windows = int(numbers.max()) + 1
        keys, counts = np.unique((ranks * windows + numbers)[counted], return_counts=True)
        users = (divmod(key, windows) for key in keys.tolist())
        found = zip(users, counts.tolist(), strict=True)
        return {(name(rank), START_MS + window * WINDOW_MS): count for (rank, window), count in found}

    def count(self, *, copies: bool) -> int:
        """Events, with copies counted or not."""
        return self.records if copies else len(np.unique(self.columns()[0]))

    def reached_ms(self, sent: int) -> int:
        """Event time in ms that so many records have reached at least."""
        return START_MS + max(0, sent - 1) * self.span_ms // self.records


def name(rank: int) -> str:
    """Name of the user of that rank."""
    return f"u{rank:05d}"


def value(number: int, rank: int, time_ms: int, record_bytes: int = 0) -> bytes:
    """Write the event with the id of that number, filled up to a size."""
    identity = number * _SPREAD % (1 << 40)
    short = b'{"id":"%010x","user":"u%05d","event_time_ms":%d,"payload":"%%b","crc":0}' % (identity, rank, time_ms)
    return short % (b"x" * max(0, record_bytes - len(short) + len(b"%b")))


def fill(bootstrap: str, topic: str, values: Iterable[bytes], partitions: int = PARTITIONS) -> int:
    """Send all values, in turn to each partition, and return how many bytes they have.

    Raises:
        BenchError: the broker did not acknowledge all of them in time.

    """
    producer = Producer(
        {
            **client_config(bootstrap),
            "acks": "all",
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    refused: list[str] = []

    def judged(error: object, _: object) -> None:
        if error is not None:
            refused.append(str(error))

    total = 0
    for number, body in enumerate(values):
        total += len(body)
        while True:
            try:
                producer.produce(topic, body, partition=number % partitions, on_delivery=judged)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    if (left := producer.flush(FLUSH_S)) or refused:
        raise BenchError(f"topic {topic}: {left} records not acknowledged in {FLUSH_S:.0f} s, {len(refused)} refused")
    return total
