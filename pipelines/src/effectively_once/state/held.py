"""State that is kept only because somebody holds the time back: up to which time there is too much of it (R6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from effectively_once.state.lateness import Windows

HeldRows = tuple[Windows, Mapping[int, int]]
"""How many rows of some windows are held, by the start of their window (ms since 1970)."""


def excess_ms(rows: Iterable[HeldRows], bound: int) -> int | None:
    """Return the least watermark at which no more than `bound` rows are held; None where no more are.

    The newest windows are held longest: who lags is waited for as far as there is room.

    Args:
        rows: those that are held.
        bound: how many may be.

    """
    # Windows of several lengths go by when they close, and not by when they begin.
    closed_by: Counter[int] = Counter()
    for windows, by_start in rows:
        closed_by.update({windows.closed_by(start): number for start, number in by_start.items()})
    held = 0
    for at_ms in sorted(closed_by, reverse=True):
        held += closed_by[at_ms]
        if held > bound:
            return at_ms
    return None
