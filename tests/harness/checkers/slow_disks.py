"""Whether the evidence of a slow disk shows that what was written meanwhile took longer, for as long as is told."""

from __future__ import annotations

from tests.harness.results import Fault

SLOW_DISK = "slow_disk"
"""The kind of fault under which every file-system call of a server takes longer; the server goes on."""
SLACK_S = 0.5
"""The two clocks by which it is measured, and moments between its end and the note of it."""


def complaint(fault: Fault) -> str | None:
    """Tell what of a slow disk's own evidence is missing or contradicts itself; None when it is whole."""
    return _too_short(fault) or _not_slowed(fault)


def _too_short(fault: Fault) -> str | None:
    if not fault.planned_s or not fault.slowed_s:
        return "for how long its disk was slow is not known"
    if fault.slowed_s + SLACK_S < fault.planned_s:
        return f"its disk was slow for {fault.slowed_s:g} s, and {fault.planned_s:g} s were planned"
    if fault.healed_at is None or fault.healed_at - fault.injected_at < 1000 * (fault.slowed_s - SLACK_S):
        return f"that its disk was as before {fault.slowed_s:g} s later is not known"
    return None


def _not_slowed(fault: Fault) -> str | None:
    """Tell that a write before took as long as one delay, or one meanwhile less: every write waits for a call."""
    told, delay_ms = fault.latency_ms or {}, fault.delay_ms or 0.0
    before, fastest = told.get("before"), told.get("fastest")
    if delay_ms <= 0 or before is None or fastest is None or before <= 0:
        return "how long writes took before it and meanwhile is not known"
    if before >= delay_ms:
        return f"a write took {before:g} ms before it: a delay of {delay_ms:g} ms shows nothing"
    if fastest < delay_ms:
        return f"it was not slowed: a write took {fastest:g} ms meanwhile, and every call {delay_ms:g} ms more"
    return None
