"""Event times as people write them, turned into milliseconds since 1970 (UTC)."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LAST_MS = 253_402_300_799_999  # end of the year 9999, the last that ISO-8601 can name


class Milliseconds(int):
    """A time whose unit is known to be milliseconds since 1970 (UTC), whatever its size."""

    __slots__ = ()


def parse_time(raw: object) -> int | None:
    """Read an event time; None when it is none, is before 1970 or after the year 9999.

    Numbers (also in text) are told apart by their size: below 10^11 seconds (fractions allowed), below 10^14
    milliseconds, below 10^17 microseconds, above that nanoseconds. Text is ISO-8601, UTC where it names no zone.
    """
    milliseconds: int | None
    if isinstance(raw, str):
        milliseconds = _from_text(raw.strip())
    elif isinstance(raw, bool):
        return None
    elif isinstance(raw, Milliseconds):
        milliseconds = int(raw)
    elif isinstance(raw, int):
        milliseconds = _from_integer(raw)
    elif isinstance(raw, float | Decimal):
        milliseconds = _from_fraction(raw)
    elif isinstance(raw, date):
        milliseconds = _from_date(raw)
    else:
        return None
    return milliseconds if milliseconds is not None and 0 <= milliseconds <= _LAST_MS else None


def _from_text(text: str) -> int | None:
    if text.isascii() and text.isdigit():
        return _from_integer(int(text)) if len(text) < 20 else None
    try:
        return _from_date(datetime.fromisoformat(text))
    except ValueError:
        if not text.isascii() or "_" in text:  # Decimal would take these for digits and grouping
            return None
    try:
        return _from_fraction(Decimal(text))
    except ArithmeticError:
        return None


def _from_integer(number: int) -> int:
    if number < 10**11:
        return number * 1000
    if number < 10**14:
        return number
    return number // 1000 if number < 10**17 else number // 1_000_000


def _from_fraction(number: float | Decimal) -> int | None:
    number = Decimal(str(number))
    if not number.is_finite() or abs(number) >= 10**19:
        return None
    if abs(number) >= 10**11:
        return _from_integer(int(number))
    # Decimal keeps 1700000000.123 s at 123 ms, where binary fractions would give 122.
    return math.floor(number * 1000)


def _from_date(moment: date) -> int:
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    elif moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND
