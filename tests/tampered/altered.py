"""An alteration of evidence beside what was recorded: which lines were lost by it, and which came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from tests.tampered.alterations import Alteration
from tests.tampered.places import Evidence, Steps

Row = dict[str, Any]


@dataclass(frozen=True)
class Altered:
    """An alteration of a file of lines or of a document.

    Attributes:
        alteration: the one, of a place.
        evidence: the file as it was recorded.

    """

    alteration: Alteration
    evidence: Evidence

    @property
    def row(self) -> Any:
        """The document or line that is altered, as it was."""
        return self.evidence.documents[self._place.line]

    @property
    def value(self) -> Any:
        """The value in it that is altered, as it was."""
        value = self.row
        for step in self._place.steps:
            value = value[step]
        return value

    @property
    def steps(self) -> Steps:
        """The way to it in its document or line."""
        steps: Steps = self._place.steps
        return steps

    @property
    def rows(self) -> list[Row]:
        """All lines as they were."""
        return self.evidence.documents

    @cached_property
    def lost(self) -> list[Row]:
        """Lines that are not there any more."""
        return _more(self.rows, self._now)

    @cached_property
    def gained(self) -> list[Row]:
        """Lines that were not there."""
        return _more(self._now, self.rows)

    @cached_property
    def rest(self) -> list[Row]:
        """Lines that stand as they were."""
        return _more(self.rows, self.lost)

    @cached_property
    def _now(self) -> list[Row]:
        changed = self.alteration.applied(self.evidence) or b""
        return Evidence(self.evidence.name, changed).documents

    @property
    def _place(self) -> Any:
        return self.alteration.place


def _more(rows: Iterable[Row], others: Iterable[Row]) -> list[Row]:
    """Return the lines of the first that the others do not have, or not as often."""
    left = Counter(orjson.dumps(row) for row in others)
    found: list[Row] = []
    for row in rows:
        if left[orjson.dumps(row)] > 0:
            left[orjson.dumps(row)] -= 1
        else:
            found.append(row)
    return found
