"""Whether the evidence of a cut shows that something was held back between two, for as long as is told."""

from __future__ import annotations

from tests.harness.checkers.lasting import too_short
from tests.harness.results import BOTH, DIRECTIONS, IN, OUT, Fault

CUT = "cut"
"""The kind of fault under which packets between two roles are dropped, or bytes held back; both go on."""


def complaint(fault: Fault) -> str | None:
    """Tell what of a cut's own evidence is missing or contradicts itself; None when it is whole."""
    if fault.direction not in DIRECTIONS:
        return f"its direction is {fault.direction!r}, and not {BOTH}, {IN} or {OUT}"
    if len(fault.between or ()) != 2 or not all(fault.between or ()) or len(set(fault.between or ())) != 2:
        return "between which two it was is not known"
    return too_short(fault, fault.cut_s) or _nothing_held(fault)


def _nothing_held(fault: Fault) -> str | None:
    dropped = fault.dropped or {}
    if min(dropped.values(), default=0) < 0 or not sum(dropped.values()):
        return "no packet and no byte is known that it held back"
    other = {IN: OUT, OUT: IN}.get(fault.direction or "")
    strays = [what for what, number in dropped.items() if number and what.split()[-1] == other]
    return f"it was cut {fault.direction}, and held back {strays[0]}" if strays else None
