"""Clocks of a run: when it was by its history, and whether that shows that the clock of a driver was stepped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

LEAST_OFF_MS = 60_000
"""Announcements are read within moments; by so much none is off unless its clock is."""
APART_MS = 120_000
"""So far two clocks of a run may be apart: faults step one of them by a minute."""
NAMED = "clock"
"""A refusal that is about the clock says so."""


def span_of_run(events: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Return from when to when something of a run may have been: its events, and as far as clocks may be apart.

    Raises:
        ValueError: there is no event.
    """
    times = [event["t"] for event in events]
    return min(times) - APART_MS, max(times) + APART_MS


def shows_step(events: Iterable[Mapping[str, Any]], from_ms: int, until_ms: int | None) -> bool:
    """Tell whether a driver showed between two moments that its clock was off (both included; None: until the end).

    Either it announced something that it dated otherwise (`told_t`) than the harness did, or it ended and named it.
    """
    return any(
        _off(event) or _named(event)
        for event in events
        if event["t"] >= from_ms and (until_ms is None or event["t"] <= until_ms)
    )


def _off(event: Mapping[str, Any]) -> bool:
    told = event.get("told_t")
    of_driver = event["event"] in ("epoch", "driver")
    return of_driver and isinstance(told, int) and abs(told - event["t"]) >= LEAST_OFF_MS


def _named(event: Mapping[str, Any]) -> bool:
    ended = event["event"] == "driver" and event.get("state") == "ended"
    return ended and NAMED in str(event.get("says", "")).lower()
