"""What is decided about a transaction by the points that are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from effectively_once_jobs.fraud.analyzers import ANALYZERS
from effectively_once_jobs.fraud.transaction import Transaction

DECLINED, REVIEWED = 100, 50
"""Sums of points from which on a transaction is declined, or looked at by people."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision.

    Attributes:
        decided_ms: when it was made, by the aggregator's clock.
        points: analyzer -> points, of those that have answered.

    """

    transaction: Transaction
    decided_ms: int
    points: Mapping[str, int]

    @property
    def missing(self) -> list[str]:
        """Analyzers that have not answered; a decision with some is partial."""
        return [name for name in ANALYZERS if name not in self.points]

    @property
    def outcome(self) -> str:
        """`approved`, `review` or `declined`; with no analyzer at all nobody knows better than `review`."""
        total = sum(self.points.values())
        if total >= DECLINED:
            return "declined"
        return "review" if total >= REVIEWED or not self.points else "approved"
