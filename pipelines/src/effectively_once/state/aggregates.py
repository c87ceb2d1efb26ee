"""What is kept of the rows of a key and window: whole numbers that partial results can be added to in any order.

Floating-point sums depend on the order of the rows, which a repeat need not keep. Amounts of money are whole numbers of
the smallest unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from effectively_once.declared import TEXT, require

Merge = Literal["sum", "min", "max"]
"""How two partial results become one; the name is Arrow's own for it."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows."""

    merge: ClassVar[Merge] = "sum"
    column: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of a column of whole numbers. A result that 64 bits do not hold is a dead letter (`sum_too_large`)."""

    column: str
    merge: ClassVar[Merge] = "sum"

    def __post_init__(self) -> None:
        """Refuse what is no name. Raises SettingsError."""
        require(self, column=TEXT)


@dataclass(frozen=True, slots=True)
class Min:
    """Least value of a column of whole numbers."""

    column: str
    merge: ClassVar[Merge] = "min"

    def __post_init__(self) -> None:
        """Refuse what is no name. Raises SettingsError."""
        require(self, column=TEXT)


@dataclass(frozen=True, slots=True)
class Max:
    """Largest value of a column of whole numbers."""

    column: str
    merge: ClassVar[Merge] = "max"

    def __post_init__(self) -> None:
        """Refuse what is no name. Raises SettingsError."""
        require(self, column=TEXT)


Aggregate = Count | Sum | Min | Max
