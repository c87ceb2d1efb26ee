"""Several rows for a record, as a job author declares it; `epoch.exploded` makes them."""

from __future__ import annotations

from dataclasses import dataclass

from effectively_once.declared import TEXT, WHOLE, require
from effectively_once.errors import SettingsError

MOST_ROWS = 10_000
"""Of a record: they multiply what a shard takes of an epoch, and each that is refused is a dead letter of its own."""


@dataclass(frozen=True)
class Explode:
    """Each element of an array that the transform gives is a row of its own.

    The transform still gives one row for each record. The library makes the rows, in the order of the array, gives each
    its place there (`pos`, from 0), and the id `<id of the record>#<pos>`: a copy of a record has the same.

    Attributes:
        column: the array's name. Its elements are structs, whose fields become columns beside those of the record.
            `reason`, and `filtered` where that is declared, may be of the record, of its elements, or both: the
            record's comes first, and then the record is one row.
        rows_max: how many rows a record may have, at most 10,000. One with more is one dead letter (`too_many_rows`).
            One whose array is null or has no element is one too (`missing_<column>`).

    Raises:
        SettingsError: a type is another, or the bound is none.

    """

    column: str
    rows_max: int

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        require(self, column=TEXT, rows_max=WHOLE)
        if not 1 <= self.rows_max <= MOST_ROWS:
            raise SettingsError(
                f"rows_max is at least 1 and at most {MOST_ROWS:,}, not {self.rows_max}",
                f"Explode {self.column!r:.80}",
                "Correct it.",
            )
