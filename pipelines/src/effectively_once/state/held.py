"""State that is kept only because somebody holds the time back: up to which time there is too much of it (R6)."""

from __future__ import annotations

from collections.abc import Mapping

from effectively_once.state.lateness import Windows


def excess_ms(rows: Mapping[int, int], windows: Windows, bound: int) -> int | None:
    """Return the least watermark at which no more than `bound` rows are held; None where no more are.

    The newest windows are held longest: who lags is waited for as far as there is room.

    Args:
        rows: how many are held, by the start of their window (ms since 1970).
        windows: the windows of the pipeline.
        bound: how many may be.

    """
    held = 0
    for start in sorted(rows, reverse=True):
        held += rows[start]
        if held > bound:
            return start + windows.length_ms + windows.lateness_ms
    return None
