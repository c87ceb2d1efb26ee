"""A line with holes: its text but for what the record it refers to says, and for numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from tests.harness.pack.varints import LIMIT

Value = int | list[int]
Facts = Mapping[str, Any]
"""What is known of a line beforehand, by the path of a value in it: `id`, `message.key`, `source.1`."""

FACT: Final = "\x01"
NUMBER: Final = "\x02"
NUMBERS: Final = "\x03"
HIDDEN: Final = "\x04"
"""Marks of the holes, around a path. JSON text has no such character. A hidden number is not in the line."""
_HOLE = re.compile("([\x01-\x04])([^\x01-\x04]*)\\1")
_NAME = re.compile(r"[\w-]+", re.ASCII)
"""Names that a path can hold: no dot, no slash."""
_WHOLE = "="
_HOLED = "~"


class UnfitError(Exception):
    """A line cannot be told by a template with holes."""


class Template:
    """One template.

    Args:
        text: as it is kept: `=` and a whole line, or `~` and text with holes.

    Attributes:
        numbers: paths of its numbers, in the order of the text; True for a list of them.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.numbers: dict[str, bool] = {}
        self._pieces: list[tuple[str, str, bytes]] = []
        if text.startswith(_WHOLE):
            self._pieces.append(("", "", text[1:].encode("utf-8", "surrogateescape")))
            return
        end = 1
        for hole in _HOLE.finditer(text):
            self._pieces.append(("", "", text[end : hole.start()].encode()))
            kind, path = hole.groups()
            self._pieces.append((kind, path, b""))
            if kind != FACT:
                self.numbers[path] = kind == NUMBERS
            end = hole.end()
        self._pieces.append(("", "", text[end:].encode()))

    @classmethod
    def whole(cls, line: bytes) -> Template:
        """The template of one line and no other."""
        return cls(_WHOLE + line.decode("utf-8", "surrogateescape"))

    def fill(self, values: Mapping[str, Value], facts: Facts) -> bytes:
        """Make a line; raises KeyError where a fact or number is missing."""
        made = []
        for kind, path, text in self._pieces:
            if not kind or kind == HIDDEN:
                made.append(text)
            elif kind == FACT:
                made.append(orjson.dumps(facts[path]))
            else:
                made.append(orjson.dumps(values[path]))
        return b"".join(made)


def shape(row: Any, facts: Facts, hidden: Mapping[str, int]) -> tuple[str, dict[str, Value]]:
    """The template of a JSON value, as text, and the numbers for it, with those that are hidden.

    Raises:
        UnfitError: it is no object, or a name in it is none that a path can have.
    """
    if type(row) is not dict:
        raise UnfitError(row)
    values: dict[str, Value] = dict(hidden)
    pieces = [_HOLED, *(f"{HIDDEN}{path}{HIDDEN}" for path in hidden)]
    _walk(row, "", facts, pieces.append, values)
    return "".join(pieces), values


def _walk(value: Any, path: str, facts: Facts, put: Callable[[str], None], values: dict[str, Value]) -> None:
    if type(value) is str:
        put(f"{FACT}{path}{FACT}" if facts.get(path) == value else orjson.dumps(value).decode())
    elif _is_number(value):
        put(f"{NUMBER}{path}{NUMBER}")
        values[path] = value
    elif type(value) is dict:
        for number, (name, one) in enumerate(value.items()):
            if not _NAME.fullmatch(name):
                raise UnfitError(name)
            put(f"{',' if number else '{'}{orjson.dumps(name).decode()}:")
            _walk(one, f"{path}.{name}" if path else name, facts, put, values)
        put("}" if value else "{}")
    elif type(value) is list:
        if _are_numbers(value):
            put(f"{NUMBERS}{path}{NUMBERS}")
            values[path] = value
            return
        for number, one in enumerate(value):
            put("," if number else "[")
            _walk(one, f"{path}.{number}", facts, put, values)
        put("]" if value else "[]")
    else:
        put(orjson.dumps(value).decode())


def _is_number(value: Any) -> bool:
    return type(value) is int and -LIMIT < value < LIMIT


def _are_numbers(value: Any) -> bool:
    return type(value) is list and bool(value) and all(map(_is_number, value))


def number_at(row: Any, path: str) -> Value | None:
    """The number, or list of numbers, at a path; None where there is none."""
    for name in path.split("."):
        if isinstance(row, dict):
            row = row.get(name)
        elif isinstance(row, list) and name.isdecimal() and int(name) < len(row):
            row = row[int(name)]
        else:
            return None
    found: Value | None = row if _is_number(row) or _are_numbers(row) else None
    return found
