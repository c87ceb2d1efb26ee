"""Deltas as the chain records them: what state is folded from, one epoch's or many merged ones'."""

from __future__ import annotations

from effectively_once.ledger.record import Sparse
from effectively_once.ledger.rows import Rows


class Folded(Rows, Sparse):
    """Rows that state is folded from.

    Attributes:
        largest: no sum of a key and window in them is larger, positive or negative; 2^63 where it may be more. None
            where nothing is summed, and in what older versions wrote.

    """

    OPTIONAL = frozenset({"largest"})

    largest: int | None = None


class Delta(Folded):
    """A delta as the chain records it: an object of its own, or, when small, its columns as JSON right here (R5)."""

    inline: str | None = None


class Span(Folded):
    """Deltas of one kind and shard, of all epochs from `first` to `last`, merged into one object that stands for them.

    It holds their rows in order, so its content is decided by the deltas, and its digest is the sum of theirs (R9).
    """

    first: int
    last: int
