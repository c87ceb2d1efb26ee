"""User code that need not be deterministic, as an author declares it; `epoch.recorded` records its answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from effectively_once.declared import FUNCTION, TEXT, require
from effectively_once.errors import SettingsError
from effectively_once.pipeline.schemas import COLUMNS, become_schema

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


@dataclass(frozen=True)
class RecordedStep:
    """User code that need not be deterministic (clock, random, look-up), run on the accepted rows of a shard.

    Attributes:
        name: part of the names of its records; small letters, digits and _, at most 41, beginning with a letter.
        function: of the shard's accepted rows, in source order, never none. Returns a table of the added columns alone,
            one row for each row given. It may be called more than once for an epoch and shard, also by two processes at
            a time; only one of its answers is ever used.
        adds: the columns it adds, written as those of a `Pipeline`. Nulls are refused in a field that is declared with
            `nullable=False`, or as NOT NULL.

    Raises:
        SettingsError: a type is another, the name does not fit, or no column or one column twice is added.

    """

    name: str
    function: Callable[[pa.Table], pa.Table]
    adds: pa.Schema

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        become_schema(self, "adds")
        require(self, name=TEXT, function=FUNCTION, adds=COLUMNS)
        names = self.adds.names
        if not _NAME.fullmatch(self.name):
            wrong = "a recorded step's name is small letters, digits and _, at most 41, beginning with a letter"
        elif not names:
            wrong = "a recorded step adds at least one column"
        elif len(set(names)) < len(names):
            wrong = f"a recorded step adds each column once, not {', '.join(names)}"
        else:
            return
        raise SettingsError(wrong, f"recorded step {self.name!r}", "Correct its declaration.")
