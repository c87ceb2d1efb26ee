"""A loss: offsets that are gone from the input, and that an operator gave up."""

from __future__ import annotations

from effectively_once.ledger.offsets import Ranges
from effectively_once.ledger.record import Record


class Loss(Record):
    """Offsets that the input topic lost before the chain covered them, and that an operator gave up.

    Attributes:
        offsets: what is gone: [start, end) by topic and partition. The epoch's ranges begin at its ends.
        at_ms: when it was given up, ms since 1970.

    """

    offsets: Ranges
    at_ms: int

    @property
    def count(self) -> int:
        """How many records are lost at most: an offset may be that of a transaction's marker."""
        return sum(end - start for partitions in self.offsets.values() for start, end in partitions.values())
