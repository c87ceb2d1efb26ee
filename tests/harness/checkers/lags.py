"""Partitions and gateways that lag: whether the evidence of a fault is of one, which was held back and came back."""

from __future__ import annotations

from tests.harness.lag_sorts import GATEWAY, HELD_BACK, PARTITION
from tests.harness.results import Fault

LAGGING = HELD_BACK
"""The kind of fault under which records of a partition or gateway come later than others: nobody is struck."""
LAGGARDS = (PARTITION, GATEWAY)
"""Its targets, each named before its number or name: their records are kept back at the sender."""


def complaint(fault: Fault) -> str | None:
    """Tell what of its own evidence is missing, or is that of somebody else."""
    if fault.target not in LAGGARDS or str(fault.process_before).partition(" ")[0] != fault.target:
        return f"{fault.process_before} is no {' or '.join(LAGGARDS)}"
    if fault.process_after != fault.process_before:
        return f"it is told to have been {fault.process_after} that came back"
    if not (fault.kept and fault.held_s and fault.held_s >= (fault.planned_s or 0.0)):
        return "no record is known that it kept back, or not for as long as it was to"
    return None
