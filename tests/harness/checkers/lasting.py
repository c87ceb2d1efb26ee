"""Whether a fault that is undone again lasted as long as was planned, and was undone when it says."""

from __future__ import annotations

from tests.harness.results import Fault

SLACK_S = 0.5
"""The two clocks by which it is measured, and moments between its end and the note of it."""


def too_short(fault: Fault, lasted_s: float | None) -> str | None:
    """Tell what shows that a fault did not last its time; None when nothing does.

    Args:
        fault: as it was told.
        lasted_s: how long it says it lasted, by its own kind's field.
    """
    if not fault.planned_s or not lasted_s:
        return "for how long it lasted is not known"
    if lasted_s + SLACK_S < fault.planned_s:
        return f"it lasted {lasted_s:g} s, and {fault.planned_s:g} s were planned"
    if fault.healed_at is None or fault.healed_at - fault.injected_at < 1000 * (lasted_s - SLACK_S):
        return f"that it was undone {lasted_s:g} s later is not known"
    return None
