"""Sends that the broker acknowledged, and what an observed row is compared by."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from tests.harness.wire import bytes_of

KINDS = ("fresh", "duplicate", "late", "malformed", "closer", "resent")


class Send(NamedTuple):
    """One acknowledged send.

    The payload is not kept: the CRC-32 covers it, and a run may hold millions of sends. `value` is the raw
    message where the sender recorded it (malformed records have no other content to compare), in `encoding`, which
    runs recorded before it was noted do not say. `gateway`: the registered source that had it, where
    there are such. `sent_at`, `acked_at`: as its line has them; who judges by one asks whether it is a time.
    """

    id: str | None
    user: str | None
    event_time_ms: int | None
    crc: int | None
    kind: str
    reason: str | None
    topic: str
    partition: int
    offset: int
    value: str | None = None
    encoding: str | None = None
    gateway: str | None = None
    sent_at: Any = None
    acked_at: Any = None

    @property
    def coordinate(self) -> tuple[str, int, int]:
        """The source coordinate (topic, partition, offset)."""
        return self.topic, self.partition, self.offset


def crc_of(id_: object, user: object, event_time_ms: object, payload: object) -> int:
    """CRC-32 of the UTF-8 text `id|user|event_time_ms|payload`."""
    return zlib.crc32(f"{id_}|{user}|{event_time_ms}|{payload}".encode("utf-8", "surrogatepass"))


WHERE_READ = ("sink", "partition", "offset", "object")
"""Fields of an observed row that say where it was read, not what it is."""
ADDED = frozenset({*WHERE_READ, "message"})
"""Fields of an observed message that are not its own."""


def crc_of_row(row: Mapping[str, Any]) -> int:
    """CRC-32 of what an observed row is, wherever it was read: its JSON with sorted names."""
    content = {name: value for name, value in row.items() if name not in WHERE_READ}
    return zlib.crc32(orjson.dumps(content, option=orjson.OPT_SORT_KEYS))


def send_of(row: Mapping[str, Any]) -> Send:
    """Check one row of `sent.jsonl` and make it a `Send`.

    Raises:
        ValueError: a field is missing, of another type, or the crc does not match the fields.

    """
    kind, topic, partition, offset = row.get("kind"), row.get("topic"), row.get("partition"), row.get("offset")
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}, allowed: {', '.join(KINDS)}")
    if (
        not isinstance(topic, str)
        or type(partition) is not int
        or type(offset) is not int
        or min(partition, offset) < 0
    ):
        raise ValueError(f"source coordinate {topic!r}/{partition!r}@{offset!r} is not (text, number, number)")
    id_, user, time, crc, reason = (row.get(name) for name in ("id", "user", "event_time_ms", "crc", "reason"))
    if kind == "malformed" and not reason:
        raise ValueError("a malformed send names no reason")
    if kind != "malformed" and not reason:
        if not isinstance(id_, str) or not isinstance(user, str) or type(time) is not int or type(crc) is not int:
            raise ValueError("a well-formed send lacks one of id, user, event_time_ms, crc")
        if crc_of(id_, user, time, row.get("payload")) != crc:
            raise ValueError(f"the crc of {id_} does not match its fields")
    value, encoding, gateway = row.get("value"), row.get("encoding"), row.get("gateway")
    if encoding is not None:
        bytes_of(value, encoding)
    return Send(
        id=id_,
        user=sys.intern(user) if isinstance(user, str) else user,
        event_time_ms=time,
        crc=crc,
        kind=sys.intern(kind),
        reason=sys.intern(reason) if isinstance(reason, str) else None,
        topic=sys.intern(topic),
        partition=partition,
        offset=offset,
        value=value,
        encoding=encoding,
        gateway=sys.intern(gateway) if isinstance(gateway, str) else None,
        sent_at=row.get("sent_at"),
        acked_at=row.get("acked_at"),
    )
