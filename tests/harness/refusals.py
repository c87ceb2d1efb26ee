"""Drivers that a sink refuses: what they decide contradicts what is visible. After two, no next one fares better."""

from __future__ import annotations

from dataclasses import dataclass

ENOUGH, REFUSED = 2, "SinkError"
"""So many are enough; and how the last words of such a driver begin (effectively_once.errors)."""


@dataclass
class Refusals:
    """Counts them."""

    count: int = 0

    @property
    def enough(self) -> bool:
        """Whether no next one is to be started."""
        return self.count >= ENOUGH

    def give_up(self, says: str) -> str | None:
        """Count a driver by its last words; why no other one is to be started, once that is clear."""
        self.count += refuses(says)
        return f"{self.count} drivers ended as a sink refused their rows; {says}" if self.enough else None


def refuses(says: str) -> bool:
    """Whether these are the last words of a driver that was refused."""
    return says.startswith(REFUSED)
