"""A file of JSON lines as templates and columns of small numbers, and back, byte for byte."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any

import orjson

from tests.harness.pack import varints
from tests.harness.pack.references import References
from tests.harness.pack.template import Facts, Template, UnfitError, Value, number_at, shape

TEMPLATES, TEMPLATE, NUMBERS, LENGTHS = "templates", "columns/template", "columns/numbers/", "columns/lengths/"
"""Templates, which of them a line has, numbers by their path, lengths of lists by their path."""
COLUMNS = "columns"
"""What the names of numbers have in them, and those of texts do not."""
NOTHING: Facts = {}


@dataclass(frozen=True)
class _Turns:
    """A template and its number, with the paths of its numbers: first those that say what a line refers to."""

    which: int
    template: Template
    keys: list[str]
    others: list[str]

    @classmethod
    def of(cls, which: int, template: Template, references: References) -> _Turns:
        keys = [path for path in references.keys if path in template.numbers]
        return cls(which, template, keys, [path for path in template.numbers if path not in references.keys])


class _Predicted:
    """Numbers as differences from what they were expected to be; both ways have the same state."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._before: dict[str, int] = defaultdict(int)

    def difference(self, column: str, number: int, fact: Any) -> int:
        expected = self._expected(column, fact)
        self._before[column] = number
        return number - expected

    def number(self, column: str, difference: int, fact: Any) -> int:
        number = self._before[column] = difference + self._expected(column, fact)
        return number

    def _expected(self, column: str, fact: Any) -> int:
        if type(fact) is int and -varints.LIMIT < fact < varints.LIMIT:
            return fact
        return self._references.expected(column, self._before[column])


def _each(fact: Any) -> Iterator[Any]:
    """What is known of each number of a list."""
    return chain(fact, repeat(None)) if isinstance(fact, list) else repeat(None)


def pack(lines: Iterable[bytes], references: References) -> dict[str, bytes]:
    """Pack lines, without their ends.

    Returns:
        Contents by name: the templates as JSON, and of each column its numbers (`varints`).
    """
    known: dict[str, _Turns] = {}
    columns: dict[str, list[int]] = defaultdict(list)
    predicted = _Predicted(references)

    def of(template: Template) -> _Turns:
        return known.get(template.text) or _Turns.of(len(known), template, references)

    def put(column: str, number: int, fact: Any = None) -> None:
        columns[column].append(predicted.difference(column, number, fact))

    def put_value(path: str, value: Value, fact: Any = None) -> None:
        if isinstance(value, int):
            put(NUMBERS + path, value, fact)
            return
        put(LENGTHS + path, len(value))
        for number, known_of_it in zip(value, _each(fact), strict=False):
            put(NUMBERS + path, number, known_of_it)

    for line in lines:
        text, values, facts = _take_apart(line, references)
        turns = known.get(text) or of(Template(text))
        if turns.template.fill(values, facts) != line:
            # Blanks, a name that comes twice, another way to write a number: the line is kept as it is.
            turns = of(Template.whole(line))
        known.setdefault(turns.template.text, turns)
        put(TEMPLATE, turns.which)
        for path in turns.keys:
            put_value(path, values[path])
        for path in turns.others:
            put_value(path, values[path], facts.get(path))
    packed = {name: varints.encode(numbers) for name, numbers in columns.items()}
    return {TEMPLATES: json.dumps(list(known), separators=(",", ":")).encode(), **packed}


def unpack(contents: Mapping[str, bytes], references: References) -> Iterator[bytes]:
    """Yield the lines that were packed, given the same references.

    Raises:
        ValueError, LookupError: the contents are damaged, or the references are others.
    """
    templates = [Template(text) for text in json.loads(contents[TEMPLATES])]
    known = [_Turns.of(which, template, references) for which, template in enumerate(templates)]
    columns = {name: iter(varints.decode(content)) for name, content in contents.items() if name != TEMPLATES}
    predicted = _Predicted(references)

    def take(column: str, fact: Any = None) -> int:
        difference = next(columns[column], None)
        if difference is None:
            raise ValueError(f"column {column} is too short")
        return predicted.number(column, difference, fact)

    def value_of(template: Template, path: str, fact: Any = None) -> Value:
        column = NUMBERS + path
        if not template.numbers[path]:
            return take(column, fact)
        return [take(column, one) for one in islice(_each(fact), take(LENGTHS + path))]

    for difference in columns.get(TEMPLATE, ()):
        which = predicted.number(TEMPLATE, difference, None)
        turns = known[which]
        values = {path: value_of(turns.template, path) for path in turns.keys}
        facts = references.facts(values)
        for path in turns.others:
            values[path] = value_of(turns.template, path, facts.get(path))
        yield turns.template.fill(values, facts)


def _take_apart(line: bytes, references: References) -> tuple[str, dict[str, Value], Facts]:
    """Template, numbers and facts of a line."""
    try:
        row = orjson.loads(line)
        hidden = references.hidden(row)
        named = {path: value for path in references.keys if (value := number_at(row, path)) is not None}
        facts = references.facts({**named, **hidden})
        text, values = shape(row, facts, hidden)
    except (ValueError, UnfitError):
        return Template.whole(line).text, {}, NOTHING
    return text, values, facts
