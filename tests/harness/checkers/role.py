"""One role per process: who announced itself as a driver is nobody else in a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.harness.checkers.witness import ROLE_OF, TICK_S, Census
from tests.harness.processes import announced_by, names, started_s
from tests.harness.results import Fault

DRIVER = "driver"
OTHERS = (*(target for target in ROLE_OF if target != DRIVER), "operator", "controller", "kubelet")
"""Targets of which none is a driver. Two that are struck together may have a driver among them."""
Event = Mapping[str, Any]


def complaint(fault: Fault, events: Sequence[Event]) -> str | None:
    """Tell of a process that a fault takes for somebody else, and that announced itself as a driver; or None."""
    if fault.target not in OTHERS:
        return None
    starts = [one for one in events if (one["event"], one.get("state")) == (DRIVER, "started")]
    for who in sorted(names(fault.process_before) | names(fault.process_after)):
        if any(announced_by(who, one) and _lived(who, one["t"], events) for one in starts):
            return f"{who} is no {fault.target}: it announced itself as a driver"
    return None


def _lived(who: str, at: int, events: Sequence[Event]) -> bool:
    """Whether a process may have been there at a moment: its pid is another one's before and after it."""
    begun = started_s(who)
    gone = [life.gone for life in Census(events).of(who)]
    over = bool(gone) and all(one is not None and one < at for one in gone)
    return not over and (begun is None or 1000 * (begun - TICK_S) <= at)
