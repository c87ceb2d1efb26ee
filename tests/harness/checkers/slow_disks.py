"""Whether the evidence of a slow disk shows that what was written meanwhile took longer, for as long as is told."""

from __future__ import annotations

from tests.harness.checkers.lasting import too_short
from tests.harness.results import Fault

SLOW_DISK = "slow_disk"
"""The kind of fault under which every file-system call of a server takes longer; the server goes on."""


def complaint(fault: Fault) -> str | None:
    """Tell what of a slow disk's own evidence is missing or contradicts itself; None when it is whole."""
    return too_short(fault, fault.slowed_s) or _not_slowed(fault)


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
