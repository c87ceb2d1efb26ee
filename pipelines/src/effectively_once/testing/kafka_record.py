"""A record as a trial takes it: what a test says of a value, a key and a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from effectively_once.declared import TEXT, WHOLE, Kind, none_or, one_of, require
from effectively_once.epoch.publishable import YEARS_US
from effectively_once.errors import SettingsError

Value = bytes | str | Mapping[str, Any] | None
"""A record's value; a dictionary is sent as JSON."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEY = none_or(one_of('"text"', bytes, bytearray, str))
_MOMENT = Kind(
    "a whole number of ms since 1970, in the years 1 to 9999",
    "1_750_000_000_000",
    lambda it: WHOLE.holds(it) and YEARS_US[0] <= it * 1000 <= YEARS_US[1],
)
_VALUE = none_or(one_of('{"id": "1"}', bytes, bytearray, str, Mapping))


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record for a transform that looks at more than the value. Headers it is not given, here or deployed.

    Attributes:
        value: as `Trial.epoch` takes it.
        key: None for no key.
        topic: of a pipeline with a transform for each.
        timestamp_ms: the column `timestamp`, ms since 1970; None for null, which no broker gives.

    """

    value: Value
    key: bytes | str | None = None
    timestamp_ms: int | None = None
    topic: str | None = None

    def __post_init__(self) -> None:
        """Refuse other types, and what cannot be sent. Raises SettingsError."""
        require(self, value=_VALUE, key=_KEY, timestamp_ms=none_or(_MOMENT), topic=none_or(TEXT))
        for name in ("value", "key"):
            try:
                encode(getattr(self, name))
            except (TypeError, ValueError) as error:
                raise SettingsError(
                    f"{name} has no form that could be sent: {error}", "KafkaRecord", "Correct it, or give it as bytes."
                ) from error

    @property
    def timestamp(self) -> datetime | None:
        """Its time as Spark takes it."""
        return None if self.timestamp_ms is None else _EPOCH + timedelta(milliseconds=self.timestamp_ms)


def encode(value: Value) -> bytes | None:
    """Return the bytes that are sent."""
    if isinstance(value, Mapping):
        return orjson.dumps(value)
    return value.encode() if isinstance(value, str) else value
