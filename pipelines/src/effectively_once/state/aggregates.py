"""What is kept of the rows of a key and window: partial results that can be added to in any order, exactly.

What each keeps and comes to, and what it costs, is in docs/reference/aggregates.md; how it is kept, in `accumulators`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from effectively_once.declared import FUNCTION, TEXT, WHOLE, one_of, require, several
from effectively_once.errors import SettingsError

MOST = 10_000
"""The largest bound of what is kept value by value: 10,000 of 16 bytes are 160 kB a key and window."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows."""

    how: ClassVar[str] = "sum"
    column: ClassVar[None] = None
    columns: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True, slots=True)
class _OfColumn:
    """What is of one column, which no accepted row has null."""

    column: str

    def __post_init__(self) -> None:
        """Refuse what is no name. Raises SettingsError."""
        require(self, column=TEXT)

    @property
    def columns(self) -> tuple[str, ...]:
        """What it needs of a row."""
        return (self.column,)


@dataclass(frozen=True, slots=True)
class Sum(_OfColumn):
    """Sum of a column of whole numbers, decimals or doubles, exact; of doubles rounded once, at the end.

    Of whole numbers it has 64 bits, of decimals ten digits more than they have, 38 at most. A sum beyond is a dead
    letter (`sum_too_large`).
    """

    how: ClassVar[str] = "sum"


@dataclass(frozen=True, slots=True)
class Average(_OfColumn):
    """Average of a column of numbers: the exact sum through the count, rounded once.

    A double, the nearest one; of decimals a decimal of four digits more behind its point, halves away from zero.
    """

    how: ClassVar[str] = "average"


@dataclass(frozen=True, slots=True)
class Min(_OfColumn):
    """Least value of a column of any type: texts by their bytes in UTF-8, false before true, -0.0 before 0.0."""

    how: ClassVar[str] = "min"


@dataclass(frozen=True, slots=True)
class Max(_OfColumn):
    """Largest value of a column of any type, in the order of `Min`."""

    how: ClassVar[str] = "max"


@dataclass(frozen=True, slots=True)
class First(_OfColumn):
    """Value of the row with the least event time; of equal times, the least topic, partition and offset."""

    how: ClassVar[str] = "first"


@dataclass(frozen=True, slots=True)
class Last(_OfColumn):
    """Value of the row with the largest event time; of equal times, the largest topic, partition and offset."""

    how: ClassVar[str] = "last"


@dataclass(frozen=True, slots=True)
class _Bounded:
    """What keeps values of a column, at most so many."""

    column: str
    most: int = 100

    def __post_init__(self) -> None:
        """Refuse what is no name, and a bound that is none. Raises SettingsError."""
        require(self, column=TEXT, most=WHOLE)
        if not 1 <= self.most <= MOST:
            name = type(self).__name__
            raise SettingsError(
                f"most is at least 1 and at most {MOST:,}, not {self.most}", name, f"Correct it: most={MOST}."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """What it needs of a row."""
        return (self.column,)


@dataclass(frozen=True, slots=True)
class CountDistinct(_Bounded):
    """How many values of a column there are, exact up to `most`; beyond, a dead letter (`too_many_distinct`).

    Of texts, bytes and long decimals 16 bytes are kept: of texts and bytes their BLAKE2b.
    """

    how: ClassVar[str] = "distinct"


@dataclass(frozen=True, slots=True)
class Collect(_Bounded):
    """The first `most` values of a column by event time, then topic, partition and offset: a text, an array of JSON."""

    how: ClassVar[str] = "collect"


@dataclass(frozen=True, slots=True)
class OwnAggregate:
    """An author's own: what is kept is anything that JSON has.

    Attributes:
        columns: whose values `add` is given.
        zero: returns what is kept of no rows.
        add: what is kept, and a row's values -> what is kept of both. It may change what it is given.
        merge: what is kept of some rows, and of others -> what is kept of both; in any order (`Trial` tries some).
        finish: what is kept -> the result, of type `result`; None where there is none.
        result: its type.

    An error of `add`, `merge` or `finish`, or None, stops nothing: the result is a dead letter (`bad_result`).
    """

    columns: tuple[str, ...]
    zero: Callable[[], Any]
    add: Callable[..., Any]
    merge: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any]
    result: pa.DataType
    how: ClassVar[str] = "own"

    def __post_init__(self) -> None:
        """Refuse other types. Raises SettingsError."""
        functions = dict.fromkeys(("zero", "add", "merge", "finish"), FUNCTION)
        require(self, columns=several(TEXT), **functions, result=one_of("pa.int64()", pa.DataType))


Aggregate = Count | Sum | Average | Min | Max | CountDistinct | First | Last | Collect | OwnAggregate
