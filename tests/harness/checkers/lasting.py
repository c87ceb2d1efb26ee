"""Whether a fault that is undone again lasted as long as was planned, and no longer than the history's clocks say."""

from __future__ import annotations

from tests.harness.results import Fault

SLACK_S = 0.5
"""The two clocks by which it is measured, and moments between its end and the note of it."""
STANDS_S = 2.0
"""So long before `injected_at` whoever stands still may have begun to: it is struck when all of it does."""


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


def too_long(fault: Fault, told_at: int) -> str | None:
    """Tell by what a fault claims to have lasted longer than from its blow to its end; None when it does not.

    Args:
        fault: as it was told.
        told_at: when the line was written that tells of it, in ms: it was over by then.
    """
    for name, before_s in (("stopped_s", STANDS_S), ("cut_s", 0.0), ("slowed_s", 0.0), ("held_s", 0.0)):
        lasted_s = getattr(fault, name)
        if lasted_s is None:
            continue
        if lasted_s <= 0:
            return f"{name} is {lasted_s:g}"
        if fault.healed_at is None:
            return f"{name} is {lasted_s:g}, and when it was undone is not known"
        between_s = (fault.healed_at - fault.injected_at) / 1000
        if lasted_s > between_s + before_s + SLACK_S:
            return f"{name} is {lasted_s:g}, and it was undone {between_s:g} s after it came"
    last = max(fault.injected_at, fault.healed_at or 0)
    late_s = (last - told_at) / 1000
    return f"it was told {late_s:g} s before it was over" if late_s > SLACK_S else None
