"""What can be done to one value of a JSON document: by its type, and never nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

SAME: Final = object()
"""An operation that would change nothing, or is none for a value of this type."""
FAR = 1_000_000
ADDED = "added_later"
"""Name of a field that no run has."""

Others = Sequence[Any]
Change = Callable[[Any, Others, Random], Any]


def content(value: Any) -> str:
    """Return what a value is to a reader: 1, 1.0 and true are three, and fields have no order."""
    return json.dumps(value, sort_keys=True)


def _number(change: Callable[[Any], Any]) -> Change:
    return lambda value, _, __: change(value) if type(value) in (int, float) else SAME


def _text(change: Callable[[str, Random], Any]) -> Change:
    return lambda value, _, random: change(value, random) if type(value) is str else SAME


def _other_character(value: str, random: Random) -> Any:
    if not value:
        return SAME
    at = random.randrange(len(value))
    return value[:at] + random.choice([one for one in "0a7fz" if one != value[at]]) + value[at + 1 :]


def _another(value: Any, others: Others, random: Random) -> Any:
    """Take a value that occurs in this field elsewhere: nothing but its meaning can tell it from the right one."""
    there = content(value)
    return next((one for one in random.sample(others, len(others)) if content(one) != there), SAME)


def _of_another_type(value: Any, _: Others, __: Random) -> Any:
    if type(value) in (int, float):
        return str(value)
    if type(value) is str:
        return 7
    return {bool: str(value), type(None): "null", list: {}, dict: []}[type(value)]


VALUES: Mapping[str, Change] = {
    "one more": _number(lambda value: value + 1),
    "one less": _number(lambda value: value - 1),
    "far more": _number(lambda value: value + FAR),
    "far less": _number(lambda value: value - FAR),
    "zero": _number(lambda _: 0),
    "half more": _number(lambda value: value + 0.5),
    "character changed": _text(_other_character),
    "text longer": _text(lambda value, _: value + "x"),
    "text emptied": _text(lambda _, __: ""),
    "flipped": lambda value, _, __: (not value) if type(value) is bool else SAME,
    "null": lambda _, __, ___: None,
    "another that occurs": _another,
    "another type": _of_another_type,
    "emptied": lambda value, _, __: type(value)() if type(value) in (list, dict) else SAME,
    "field added": lambda value, _, __: {**value, ADDED: 1} if type(value) is dict else SAME,
}
"""Operation -> what becomes of a value, given others of its field; SAME where it is none for it."""


def _dropped(elements: list[Any], at: int) -> list[Any] | object:
    return [*elements[:at], *elements[at + 1 :]]


def _doubled(elements: list[Any], at: int) -> list[Any] | object:
    return [*elements[: at + 1], *elements[at:]]


def _swapped(elements: list[Any], at: int) -> list[Any] | object:
    one, other = elements[at], elements[at + 1] if at + 1 < len(elements) else elements[at]
    return SAME if repr(one) == repr(other) else [*elements[:at], other, one, *elements[at + 2 :]]


ELEMENTS: Mapping[str, Callable[[list[Any], int], Any]] = {
    "dropped": _dropped,
    "doubled": _doubled,
    "swapped with the next": _swapped,
}
"""Operation -> what becomes of a list at one of its elements; lines of a file are such a list."""
OPERATIONS = (*VALUES, *ELEMENTS)


def changed(document: Any, path: Sequence[str | int], operation: str, others: Others, random: Random) -> Any:
    """Return a copy of a document that is altered at one place, or SAME.

    Args:
        document: a JSON value.
        path: names and indexes that lead to the place; empty: the document itself.
        operation: of VALUES, or of ELEMENTS for an element of a list; `dropped` is for fields, too.
        others: further values of the same field.
        random: draws what is not said.

    """
    if not path:
        found = VALUES[operation](document, others, random) if operation in VALUES else SAME
        return SAME if found is SAME or content(found) == content(document) else found
    step, *rest = path
    if not rest and operation not in VALUES:
        if type(document) is list:
            return ELEMENTS[operation](document, int(step))
        return {name: document[name] for name in document if name != step} if operation == "dropped" else SAME
    below = changed(document[step], rest, operation, others, random)
    if below is SAME:
        return SAME
    # Only what leads to the place is copied: others keep the documents as they were.
    copy: Any = document.copy()
    copy[step] = below
    return copy
