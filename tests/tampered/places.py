"""The places of a run where something can be altered: files, lines, fields, named so that like ones share a name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tests.harness.checkers import binding
from tests.harness.history import LINK

Steps = tuple[str | int, ...]
KINDS = {
    "history.jsonl": ("event", "state"),
    "sent.jsonl": ("kind",),
    "dead_letter.jsonl": ("reason",),
}
"""File -> the fields by which lines of it are of different kinds."""
DOCUMENT, END = "document", "end"
KEPT_VALUES = 50
"""Values of a field that are kept to replace others."""


@dataclass(frozen=True)
class Place:
    """Where in a file: its line (0 of a document), and the steps from there."""

    line: int
    steps: Steps


@dataclass
class Evidence:
    """One file of a run, as it was recorded.

    Attributes:
        name: below the run directory.
        raw: its bytes.

    """

    name: str
    raw: bytes

    @property
    def is_lines(self) -> bool:
        """Whether it holds a document a line."""
        return self.name.endswith(".jsonl")

    @cached_property
    def raw_lines(self) -> list[bytes]:
        """Its documents as they were written."""
        return self.raw.splitlines() if self.is_lines else [self.raw]

    @cached_property
    def documents(self) -> list[Any]:
        """Its documents, an end line among them."""
        return [json.loads(line) for line in self.raw_lines]

    def kind(self, line: int) -> str:
        """Name the kind of a line; DOCUMENT where it is the only one."""
        if not self.is_lines:
            return DOCUMENT
        row = self.documents[line]
        if row.get("end") is True:
            return END
        if self.name.endswith(".concurrent.jsonl"):
            return "reader" if "reader" in row else "seen"
        names = KINDS.get(Path(self.name).name)
        return "line" if names is None else " ".join(str(row[name]) for name in names if row.get(name) is not None)

    @property
    def places(self) -> dict[str, list[Place]]:
        """Name of a field -> where it is found."""
        return self._fields[0]

    @property
    def values(self) -> dict[str, list[Any]]:
        """Name of a field -> values that it has."""
        return self._fields[1]

    @cached_property
    def _fields(self) -> tuple[dict[str, list[Place]], dict[str, list[Any]]]:
        found: dict[str, list[Place]] = {}
        values: dict[str, list[Any]] = {}
        for line, document in enumerate(self.documents):
            kind = self.kind(line)
            for name, steps, value in _walk(document, kind, ()):
                found.setdefault(name, []).append(Place(line, steps))
                known = values.setdefault(name, [])
                if len(known) < KEPT_VALUES and value not in known:
                    known.append(value)
        return found, values


def _walk(value: Any, name: str, steps: Steps) -> Iterator[tuple[str, Steps, Any]]:
    """Yield all values of a document, itself among them; numbers of partitions and positions in lists are no names."""
    yield name, steps, value
    if isinstance(value, dict):
        for key, below in value.items():
            if not (key == LINK and not steps):
                part = "*" if key.isdigit() else key
                yield from _walk(below, f"{name}.{part}", (*steps, key))
    elif isinstance(value, list):
        for at, below in enumerate(value):
            yield from _walk(below, f"{name}[]", (*steps, at))


def files_of(run: Path) -> list[Evidence]:
    """Read all files of a run and of its controls, but those that are made of the evidence."""
    made = [name for name in binding.MADE_OF_IT if name != binding.NAME]
    paths = sorted(path for path in run.rglob("*") if path.is_file() and path.name not in made)
    return [Evidence(str(path.relative_to(run)), path.read_bytes()) for path in paths]


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile("|".join(".*".join(map(re.escape, one.split("*"))) for one in pattern.split("|")))


def matches(pattern: str, name: str) -> bool:
    """Whether a name is of a pattern; brackets stand for themselves, as names of fields have them."""
    return _pattern(pattern).fullmatch(name) is not None
