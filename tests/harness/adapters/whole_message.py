"""A message of a topic as `observed/` keeps it: the fields of its JSON object, and what it has beside them.

What is the same in every message of a right product is left out, so that files stay small. That it was looked at says
`message`, which every row has.
"""

from __future__ import annotations

from typing import Any, Protocol

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from tests.harness.sends import ADDED
from tests.harness.wire import BASE64, as_text, compact, json_object

_TYPES = {TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime"}


class Message(Protocol):
    """The part of confluent_kafka.Message that is looked at."""

    def key(self) -> bytes | None:
        """Its key."""

    def value(self) -> bytes | None:
        """Its value."""

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Its headers, None or empty where it has none."""

    def timestamp(self) -> tuple[int, int]:
        """Type and time (ms since 1970)."""


def whole(message: Message) -> dict[str, Any]:
    """Return what a message is: the fields of its value, and in `message` the rest.

    `message` holds `key` (null for none), and only where there is something to tell `headers` (pairs of name and
    content), `timestamp` (its type, unless CreateTime) and `value`: the whole value where the fields do not tell it. It
    is no JSON object then, has a name twice, is not compact, or a field is called as one that the harness adds. Bytes
    that are no UTF-8 are in base64, with `"base64"` beside them (`key_encoding`, `value_encoding`, a header's third).
    """
    value = message.value()
    fields = json_object(value)
    beside: dict[str, Any] = _content("key", message.key())
    if headers := message.headers():
        beside["headers"] = [_header(name, content) for name, content in headers]
    if (kind := message.timestamp()[0]) != TIMESTAMP_CREATE_TIME:
        beside["timestamp"] = _TYPES.get(kind, "none")
    if fields is None or compact(fields) != value or not ADDED.isdisjoint(fields):
        beside |= _content("value", value)
    kept = {name: content for name, content in (fields or {}).items() if name not in ADDED}
    return {**kept, "message": beside}


def _content(name: str, content: bytes | None) -> dict[str, Any]:
    if content is None:
        return {name: None}
    text, encoding = as_text(content)
    return {name: text, **({f"{name}_encoding": encoding} if encoding == BASE64 else {})}


def _header(name: str, content: bytes | None) -> list[str | None]:
    if content is None:
        return [name, None]
    text, encoding = as_text(content)
    return [name, text, *([encoding] if encoding == BASE64 else [])]
