"""Strict JSON in plain Python: what `json_records` has to take a record for, if it takes it at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

_DIGITS, _DEPTH, _NAME = 1_000, 1_000, 50_000
"""The most that the parser takes which Spark reads by: digits of a number, levels, characters of a key."""
_RANGES = {"long": 2**63, "int": 2**31}


class _Object(tuple[tuple[str, Any], ...]):
    """A JSON object as it is written: a key may be there twice."""

    __slots__ = ()


def read(value: bytes | None, fields: Mapping[str, str]) -> tuple[str | None, dict[str, Any]]:
    """Return why a record is refused, or None, and its fields; those that it does not have are null.

    Args:
        value: the record's bytes.
        fields: name -> string, boolean, int, long or double.

    """
    nothing: dict[str, Any] = dict.fromkeys(fields)
    try:
        text = (value or b"").decode()
        given = json.loads(
            text,
            object_pairs_hook=_Object,
            parse_constant=_refused,
            parse_int=lambda number: int(_short(number)),
            parse_float=lambda number: float(_short(number)),
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
            reason = reason or ("bad_time" if name == "event_time_ms" else f"bad_{name}")
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
    if kind in _RANGES:
        return value if whole and -_RANGES[kind] <= value < _RANGES[kind] else None
    if kind == "double":
        try:
            return float(value) if whole or isinstance(value, float) else None
        except OverflowError:
            return float("inf") if value > 0 else -float("inf")
    return value if isinstance(value, str if kind == "string" else bool) else None
