"""Bytes of messages as the files of a run directory hold them: as text, or in base64 where they are none."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import orjson

TEXT: Final = "utf-8"
BASE64: Final = "base64"
CREATE_TIME: Final = "CreateTime"
"""Type of a timestamp that its producer set."""


def as_text(content: bytes) -> tuple[str, str]:
    """Bytes as text, and its encoding: `utf-8`, or `base64` where they are no UTF-8."""
    try:
        return content.decode(), TEXT
    except UnicodeDecodeError:
        return base64.b64encode(content).decode(), BASE64


def spell(value: bytes | Decimal) -> str:
    """What JSON has no form of, as sinks write it: bytes by their digits, a decimal with all of its own."""
    return value.hex() if isinstance(value, bytes) else f"{value:f}"


def bytes_of(text: object, encoding: object) -> bytes:
    """Bytes of what `as_text` gives. Raises ValueError where it gives no such text."""
    if not isinstance(text, str) or encoding not in (TEXT, BASE64):
        raise ValueError(f"neither text in utf-8 nor in base64: {text!r:.60} in {encoding!r}")
    return text.encode() if encoding == TEXT else base64.b64decode(text, validate=True)


def compact(fields: Mapping[str, Any]) -> bytes:
    """The one form of a JSON object in a message: UTF-8, no blanks, each name once, nothing escaped without need."""
    return orjson.dumps(fields)


def json_object(content: bytes | None) -> dict[str, Any] | None:
    """Parse bytes that are a JSON object; None where they are none."""
    try:
        found = orjson.loads(content or b"")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None
