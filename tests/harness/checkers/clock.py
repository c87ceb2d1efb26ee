"""Whether a history shows that the clock of a driver was stepped: by its own announcements, or its last words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

LEAST_OFF_MS = 60_000
"""Announcements are read within moments; by so much none is off unless its clock is."""
NAMED = "clock"
"""A refusal that is about the clock says so."""


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
