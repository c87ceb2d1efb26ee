"""A record: its id, fixed at the first put, and its bytes in the buffer and on the wire."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from effectively_once.gateway.errors import RecordError

EVENT_TIME_END_MS = 10**15
"""Event times have at most 15 digits, as the jobs read them."""

_HEAD = struct.Struct("<qqi?")
Header = tuple[str, bytes]
Build = Callable[["RecordId", int, Any], bytes]
"""From id, event time (ms since 1970) and what was put, the value on the wire. Must be safe to call from any thread."""


@dataclass(frozen=True, slots=True, order=True)
class RecordId:
    """Identity of a record, the same in every copy that is ever sent.

    `incarnation` is drawn anew (64 random bits, 16 hex digits) whenever a gateway is opened: a sender whose buffer was
    lost, or lost its end, starts counting again without using an id twice. `sequence` counts from 0 in each.
    """

    producer: str
    incarnation: str
    sequence: int

    def __str__(self) -> str:
        """As text, for catalogs of text keys: at most 64 + 1 + 16 + 1 + 15 characters of ASCII."""
        return f"{self.producer}-{self.incarnation}-{self.sequence}"

    def __bytes__(self) -> bytes:
        """As 16 bytes, for catalogs of such: 10 of a hash of producer and incarnation, 6 of the sequence."""
        opening = hashlib.blake2b(f"{self.producer}-{self.incarnation}".encode(), digest_size=10).digest()
        return opening + self.sequence.to_bytes(6, "big")


@dataclass(frozen=True, slots=True)
class Record:
    """What goes to Kafka. With `announced`, id and event time travel as headers, else in `value` if at all."""

    id: RecordId
    event_time_ms: int
    key: bytes | None
    value: bytes
    announced: bool

    def encode(self) -> bytes:
        """Return the body of its frame; producer and incarnation stand in the header of the segment."""
        key = -1 if self.key is None else len(self.key)
        return b"".join(
            (_HEAD.pack(self.id.sequence, self.event_time_ms, key, self.announced), self.key or b"", self.value)
        )

    @classmethod
    def decode(cls, body: bytes, producer: str, incarnation: str) -> Record:
        """Read what `encode` wrote."""
        sequence, event_time_ms, size, announced = _HEAD.unpack_from(body)
        start, end = _HEAD.size, _HEAD.size + max(size, 0)
        key = None if size < 0 else body[start:end]
        return cls(RecordId(producer, incarnation, sequence), event_time_ms, key, body[end:], announced)

    @property
    def headers(self) -> list[Header]:
        """Headers on the wire."""
        if not self.announced:
            return []
        return [("id", str(self.id).encode()), ("event-time-ms", str(self.event_time_ms).encode())]


def json_record(identity: RecordId, event_time_ms: int, fields: Mapping[str, object]) -> bytes:
    """Build the JSON that the jobs read: `fields` (for user_counts `user` and `payload`), `id` and `event_time_ms`.

    Raises RecordError when `fields` has one of these two, or something that is no JSON.
    """
    taken = {"id", "event_time_ms"} & fields.keys()
    if taken:
        raise _record_error(
            f"the fields hold {', '.join(sorted(taken))}", "The gateway gives id and event time; leave it out."
        )
    try:
        return orjson.dumps({"id": str(identity), "event_time_ms": event_time_ms, **fields})
    except TypeError as error:
        raise _record_error(f"the fields are no JSON: {error}", "Put text, numbers, lists and mappings.") from error


def check_time(event_time_ms: int) -> int:
    """Return a usable event time. Raises RecordError."""
    whole = isinstance(event_time_ms, int) and not isinstance(event_time_ms, bool)
    if not whole or not 0 <= event_time_ms < EVENT_TIME_END_MS:
        raise _record_error(
            f"event_time_ms is {event_time_ms!r}", "Give whole milliseconds since 1970, at most 15 digits."
        )
    return event_time_ms


def check_bytes(name: str, content: object) -> bytes:
    """Return key or value as bytes. Raises RecordError."""
    if not isinstance(content, bytes | bytearray | memoryview):
        raise _record_error(
            f"the {name} is {type(content).__name__}, not bytes", "Encode it, or give the gateway a `build`."
        )
    return bytes(content)


def check_size(record: Record, bytes_max: int) -> Record:
    """Return a record that is small enough. Raises RecordError."""
    size = len(record.key or b"") + len(record.value)
    if size > bytes_max:
        raise _record_error(
            f"key and value have {size} bytes, {bytes_max} are allowed", "Split it, or raise record_bytes_max."
        )
    return record


def _record_error(what: str, todo: str) -> RecordError:
    return RecordError(what, "put of a record", todo)
