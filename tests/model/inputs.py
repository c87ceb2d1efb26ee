"""Input of a step as its worker sees it: parts of all tasks before it, which may end early (R13).

A worker reads a stream. Each task before it closes its part with a closing row; the parts come one behind the other, in
any order. The stream ends behind the last part, or anywhere: where the JVM side of the task fails, it just ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

TASKS = 2
"""Map tasks before a first step."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a worker holds when its stream ends: rows in source order, and how many tasks closed their part."""

    rows: tuple[Any, ...]
    closed: int
    tasks: int

    def __str__(self) -> str:
        """Describe it in a line."""
        return f"{len(self.rows)} rows, closing rows of {self.closed} of {self.tasks} tasks"

    @property
    def whole(self) -> bool:
        """Whether all tasks closed their part: the proof of whole input."""
        return self.closed == self.tasks

    @property
    def begun(self) -> bool:
        """Whether any task did."""
        return self.closed > 0


@dataclass(frozen=True, slots=True)
class Read:
    """A step reads its input to the end of the stream.

    Attributes:
        rows: that it should get, in source order.
        of: the task that holds each of them.
        tasks: how many there are.

    """

    rows: tuple[Any, ...]
    of: tuple[int, ...]
    tasks: int

    def replies(self, early: bool) -> Iterator[Rows]:
        """Every input that the step may get; the first is the whole one. `early`: whether it may end early."""
        yield Rows(self.rows, self.tasks, self.tasks)
        if early:
            # Two cuts may leave the same; a set would hold them in another order in each run.
            yield from dict.fromkeys(self._cut())

    def _cut(self) -> Iterator[Rows]:
        for order in permutations(range(self.tasks)):
            behind: list[int] = []
            for closed, task in enumerate(order):
                part = [place for place, owner in enumerate(self.of) if owner == task]
                for number in range(len(part) + 1):
                    yield Rows(self._at([*behind, *part[:number]]), closed, self.tasks)
                behind += part

    def _at(self, places: Collection[int]) -> tuple[Any, ...]:
        return tuple(row for place, row in enumerate(self.rows) if place in places)


def deal(rows: tuple[Any, ...]) -> Read:
    """Return the input of a first step: map tasks hold its rows in turn."""
    return Read(rows, tuple(place % TASKS for place in range(len(rows))), TASKS)


def prove(wanted: Read, asked: bool, proof: Callable[[Rows], bool]) -> Generator[Read, Rows, tuple[Any, ...] | None]:
    """Return the rows of a step; None where the proof is missing, so that the task fails before it does anything.

    Args:
        wanted: the input.
        asked: whether to read it is a step of its own. Where no input ends early it would only add states.
        proof: whether a step decides on what it read.

    """
    if not asked:
        return wanted.rows
    rows = yield wanted
    return rows.rows if proof(rows) else None
