"""A driver that was away: that none came for as long as the fault says that none was started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.harness.results import Fault

AWAY = "away"
"""The kind of fault after which no driver is started for a while."""
APART_MS = 2_000
"""Who lets drivers be started again notes it a moment later; and two clocks."""


def complaint(fault: Fault, events: Iterable[Mapping[str, Any]]) -> str | None:
    """Tell that it was shorter than planned, or that a driver started meanwhile; None when neither is so."""
    if fault.healed_at is None or fault.planned_s is None:
        return None
    between_ms = fault.healed_at - fault.injected_at
    if between_ms + APART_MS < 1000 * fault.planned_s:
        return f"drivers were let start again {between_ms / 1000:g} s later, and {fault.planned_s:g} s were planned"
    starts = (one["t"] for one in events if one["event"] == "driver" and one.get("state") == "started")
    early = next((at for at in starts if fault.injected_at < at < fault.healed_at - APART_MS), None)
    if early is None:
        return None
    after_s, due_s = (early - fault.injected_at) / 1000, between_ms / 1000
    return f"a driver started {after_s:g} s after it, and none was to for {due_s:g} s"
