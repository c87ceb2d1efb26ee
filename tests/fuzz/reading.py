"""Strict JSON in plain Python: what `json_records` has to take a record for, if it takes it at all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NoReturn

_DIGITS, _DEPTH, _NAME = 1_000, 1_000, 50_000
"""The most that the parser takes which Spark reads by: digits of a number, levels, characters of a key."""
_RANGES = {"long": 2**63, "int": 2**31}
_DECIMAL_DIGITS = 38
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FARTHEST = timedelta(hours=18)
"""Of a zone, as Java has them."""


class _Fraction(float):
    """A number that is not written as a whole one, and how it is written."""

    text: str

    @classmethod
    def of(cls, text: str) -> _Fraction:
        made = cls(text)
        made.text = text
        return made


class _Object(tuple[tuple[str, Any], ...]):
    """A JSON object as it is written: a key may be there twice."""

    __slots__ = ()


def read(value: bytes | None, fields: Mapping[str, str]) -> tuple[str | None, dict[str, Any]]:
    """Return why a record is refused, or None, and its fields; those that it does not have are null.

    Args:
        value: the record's bytes.
        fields: name -> string, boolean, int, long, double, decimal(p,s), date or timestamp. The last is microseconds
            since 1970, as it may be beyond Python's years in UTC.

    """
    nothing: dict[str, Any] = dict.fromkeys(fields)
    try:
        text = (value or b"").decode()
        given = json.loads(
            text,
            object_pairs_hook=_Object,
            parse_constant=_refused,
            parse_int=lambda number: int(_short(number)),
            parse_float=lambda number: _Fraction.of(_short(number)),
        )
        if not isinstance(given, _Object):
            return "malformed", nothing
        objects = list(_objects(given))
    except (ValueError, RecursionError):
        return "malformed", nothing
    twice = [len(dict(one)) < len(one) for one in objects]
    if any(twice):
        return "duplicate_key" if twice[0] else "malformed", nothing
    held, reason = dict(given), None
    for name, kind in fields.items():
        nothing[name] = _typed(held.get(name), kind)
        if nothing[name] is None and held.get(name) is not None:
            time = name == "event_time_ms" or (name, kind) == ("event_time", "timestamp")
            reason = reason or ("bad_time" if time else f"bad_{name}")
    return reason, nothing


def _refused(name: str) -> NoReturn:
    raise ValueError(name[:80])


def _short(text: str) -> str:
    return text if len(text) <= _DIGITS else _refused(text)


def _objects(given: Any) -> Iterator[_Object]:
    """Yield every object, the outermost first. Raises ValueError of half a character, and beyond a limit."""
    left = [(given, 1)]
    while left:
        one, depth = left.pop()
        if depth > _DEPTH and isinstance(one, tuple | list):
            raise ValueError("too deep")
        if isinstance(one, str):
            one.encode()
        elif isinstance(one, _Object):
            if any(len(name) > _NAME for name, _ in one):
                raise ValueError("a name is too long")
            yield one
            left += [(part, depth + 1) for pair in one for part in pair]
        elif isinstance(one, list):
            left += [(part, depth + 1) for part in one]


def _typed(value: Any, kind: str) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if sizes := _DECIMAL.fullmatch(kind):
        text = value.text if isinstance(value, _Fraction) else str(value) if whole else ""
        return _decimal(text, *map(int, sizes.groups()))
    if kind in ("date", "timestamp"):
        return _moment(value, kind) if isinstance(value, str) else None
    if kind in _RANGES:
        return value if whole and -_RANGES[kind] <= value < _RANGES[kind] else None
    if kind == "double":
        try:
            return float(value) if whole or isinstance(value, float) else None
        except OverflowError:
            return float("inf") if value > 0 else -float("inf")
    return value if isinstance(value, str if kind == "string" else bool) else None


def _decimal(text: str, precision: int, scale: int) -> Decimal | None:
    if not text or "e" in text.lower():
        return None
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    if len(digits) > _DECIMAL_DIGITS or -int(exponent) > _DECIMAL_DIGITS:
        return None
    # Python's context would round what has more digits than it.
    whole, rest = divmod(int("".join(map(str, digits))) * 10**scale, 10 ** -int(exponent))
    return number if not rest and whole < 10**precision else None


def _moment(text: str, kind: str) -> Any:
    """A day, or a moment; None of what is another, or written otherwise."""
    day = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
    if kind == "date":
        return _or_none(lambda: date.fromisoformat(text)) if re.fullmatch(day, text) else None
    parts = re.fullmatch(rf"({day}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}})(?:\.([0-9]+))?(Z|[+-][0-9]{{2}}:[0-9]{{2}})", text)
    if parts is None:
        return None
    local, digits, zone = parts[1], parts[2] or "", parts[3].replace("Z", "+00:00")
    if digits[6:].strip("0"):
        return None
    ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:]))
    if int(zone[4:]) > 59 or ahead > _FARTHEST:
        return None
    at = _or_none(lambda: datetime.strptime(local, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC))
    if at is None:
        return None
    since = (at - _EPOCH) // timedelta(microseconds=1) + int(digits[:6].ljust(6, "0"))
    return since - (-1 if zone[0] == "-" else 1) * (ahead // timedelta(microseconds=1))


def _or_none(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except ValueError:
        return None
