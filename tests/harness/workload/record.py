"""One planned record and its form on the wire (docs/reference/run-directory.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from zlib import crc32

import orjson

from tests.harness.wire import as_text

Kind: TypeAlias = Literal["fresh", "duplicate", "late", "malformed", "closer", "resent"]
Reason: TypeAlias = Literal["not_json", "missing_id", "missing_user", "bad_time"]

REASONS: tuple[Reason, ...] = ("not_json", "missing_id", "missing_user", "bad_time")
"""Why a record is malformed; a record with several faults has the first of them in this order."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A record to be sent.

    `n` counts the records of the plan from 0. `event_time_ms` is milliseconds since 1970 (UTC); `id`, `user`,
    `event_time_ms`, `payload`, `crc` are None where a malformed record has no usable one. `key` and `value` are the
    bytes sent. `gate`, when set, is a watermark in ms: the record may be sent only after an epoch with at least this
    watermark was declared. `settled`: it may be sent only after epochs that were declared hold everything before it.
    """

    n: int
    id: str | None
    user: str | None
    event_time_ms: int | None
    payload: str | None
    crc: int | None
    kind: Kind
    reason: Reason | None
    key: bytes | None
    value: bytes
    gate: int | None = None
    settled: bool = False

    @property
    def moves_watermark(self) -> bool:
        """Whether it can raise the watermark: late, malformed and re-sent records are never accepted."""
        return self.kind in {"fresh", "duplicate", "closer"}


def checksum(id_: str, user: str, event_time_ms: int, payload: str) -> int:
    """CRC-32 of the UTF-8 text `id|user|event_time_ms|payload`, as judged by the checkers."""
    return crc32(f"{id_}|{user}|{event_time_ms}|{payload}".encode())


def encode(id_: str, user: str, event_time_ms: int, payload: str, crc: int) -> bytes:
    """Value of a well-formed record: compact JSON in UTF-8."""
    return orjson.dumps({"id": id_, "user": user, "event_time_ms": event_time_ms, "payload": payload, "crc": crc})


def well_formed(
    n: int,
    id_: str,
    user: str,
    event_time_ms: int,
    payload: str,
    *,
    kind: Kind = "fresh",
    gate: int | None = None,
    settled: bool = False,
) -> Planned:
    """Build a complete record with its checksum, key and value."""
    crc = checksum(id_, user, event_time_ms, payload)
    value = encode(id_, user, event_time_ms, payload, crc)
    return Planned(n, id_, user, event_time_ms, payload, crc, kind, None, user.encode(), value, gate, settled)


def malformed_without(name: Literal["id", "user"], n: int, id_: str, event_time_ms: int) -> Planned:
    """Build a record that is refused because it has no `name`, and well-formed else."""
    fields = {"id": id_, "user": "nobody", "event_time_ms": event_time_ms, "payload": "", "crc": 0}
    del fields[name]
    reason: Reason = "missing_id" if name == "id" else "missing_user"
    owner = None if name == "user" else "nobody"
    given = None if name == "id" else id_
    key = owner.encode() if owner else None
    return Planned(n, given, owner, event_time_ms, None, None, "malformed", reason, key, orjson.dumps(fields))


def copy_of(original: Planned, n: int, kind: Kind, gate: int | None = None) -> Planned:
    """Build a record with the very same key and value as `original`, under another number and kind."""
    return Planned(
        n,
        original.id,
        original.user,
        original.event_time_ms,
        original.payload,
        original.crc,
        kind,
        original.reason,
        original.key,
        original.value,
        gate,
    )


def line_of(
    record: Planned,
    topic: str,
    partition: int,
    offset: int,
    sent_at: int,
    *,
    acked_at: int | None = None,
    gateway: str | None = None,
) -> dict[str, Any]:
    """Line of `sent.jsonl`; in ms since 1970 (UTC).

    `sent_at` is when the record was handed to the producer, `acked_at` when its acknowledgement was heard. `gateway`
    had it, where there are registered sources.
    """
    line = {
        "n": record.n,
        "id": record.id,
        "user": record.user,
        "event_time_ms": record.event_time_ms,
        "payload": record.payload,
        "crc": record.crc,
        "kind": record.kind,
        "reason": record.reason,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "sent_at": sent_at,
    }
    if acked_at is not None:
        line["acked_at"] = acked_at
    if gateway is not None:
        line["gateway"] = gateway
    if record.reason is not None:  # no checksum covers a malformed record: its bytes are the ground truth
        line["value"], line["encoding"] = as_text(record.value)
    return line


def partition_of_user(user: str, partitions: int) -> int:
    """Partition of a user: CRC-32 of the UTF-8 name modulo the number of partitions."""
    return crc32(user.encode()) % partitions


def partition_of(record: Planned, partitions: int) -> int:
    """Partition a record is sent to; without a user it is `n` modulo the number of partitions."""
    return record.n % partitions if record.key is None else crc32(record.key) % partitions


def window_end(event_time_ms: int, window_ms: int) -> int:
    """End (exclusive, ms) of the fixed window that holds `event_time_ms`."""
    return event_time_ms - event_time_ms % window_ms + window_ms


def is_late(event_time_ms: int, watermark_ms: int | None, window_ms: int, lateness_ms: int) -> bool:
    """Tell whether a record is late by the one rule: window end + allowed lateness <= watermark."""
    return watermark_ms is not None and window_end(event_time_ms, window_ms) + lateness_ms <= watermark_ms
