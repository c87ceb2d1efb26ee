"""The leader of a partition that was away: whether the evidence of a fault is of one, and of another that led then."""

from __future__ import annotations

from tests.harness.checkers.lasting import too_short
from tests.harness.results import Fault

LEADER_AWAY = "leader_away"
"""The kind of fault under which the broker that leads one partition of the input stands still."""


def complaint(fault: Fault) -> str | None:
    """Tell what of its own evidence is missing, or is that of another broker."""
    if (why := too_short(fault, fault.stopped_s)) is not None:
        return why
    if len(moves := list((fault.leaders or {}).values())) != 1:
        return f"it is about one partition, and the evidence names {len(moves)}"
    led = moves[0].before
    # The chart gives a broker the number of its pod.
    pod = str(fault.process_before).partition("@")[0]
    if pod.rpartition("-")[2] != str(led):
        return f"{pod} was stopped, and broker {led} led the partition"
    return None if moves[0].changed else "no other broker is known to have led the partition meanwhile"
