"""What the catalog did, as numbers for an epoch's record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """What the last `decide` and the last `expire` came to; looked_up is the sum of the next three.

    Attributes:
        looked_up: rows that were asked for.
        surely_new: rows that no filter knew: new without a look at any id.
        false_positives: rows that a filter knew and no id was equal to: new as well.
        duplicates: rows with an id that is live, or that an earlier row of the same epoch has.
        expired: ids whose windows were closed.

    """

    looked_up: int = 0
    surely_new: int = 0
    false_positives: int = 0
    duplicates: int = 0
    expired: int = 0
