"""Records for the Spark tests: seeded users and times, each kind of trouble among them in known number."""

from __future__ import annotations

import random

from tests.harness.workload.record import checksum, encode
from tests.spark.pipeline import PARTITIONS, Outgoing

START_MS = 1_750_000_020_000
STEP_MS = 500
MALFORMED: tuple[tuple[bytes, str], ...] = (
    (b'{"id":"cut', "not_json"),
    (b"\xff\xfe\x00", "not_json"),
    (b'{"user":"u","event_time_ms":1750000000000}', "missing_id"),
    (b'{"id":"i","event_time_ms":1750000000000}', "missing_user"),
    (b'{"id":"i","user":"u","event_time_ms":"soon"}', "bad_time"),
)


def good(id_: str, user: str, event_time_ms: int, partition: int) -> Outgoing:
    """Make a well-formed record."""
    payload = f"payload of {id_} ü"
    crc = checksum(id_, user, event_time_ms, payload)
    value = encode(id_, user, event_time_ms, payload, crc)
    return Outgoing(value, partition, id_, user, event_time_ms, crc)


def mixture(seed: int, number: int, first: int = 0) -> list[Outgoing]:
    """Make `number` records in time order, a tenth of them copies of near ones, and some of every malformed kind."""
    rng = random.Random(seed)
    records: list[Outgoing] = []
    for n in range(first, first + number):
        partition = n % PARTITIONS
        kind = rng.random()
        if kind < 0.1 and records:
            original = rng.choice(records[-40:])
            records.append(Outgoing(**{**original.__dict__, "partition": partition}))
        elif kind < 0.13:
            value, reason = rng.choice(MALFORMED)
            records.append(Outgoing(value, partition, reason=reason))
        else:
            records.append(good(f"s{seed}-{n:06d}", f"u{rng.randrange(37)}", START_MS + n * STEP_MS, partition))
    return records


def late(seed: int, number: int) -> list[Outgoing]:
    """Make records of the very first window, half of them copies of ids accepted long before."""
    return [
        good(f"s{seed}-{n:06d}" if n % 2 else f"s{seed}-late-{n:06d}", "u1", START_MS, n % PARTITIONS)
        for n in range(number)
    ]
