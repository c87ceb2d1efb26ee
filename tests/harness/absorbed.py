"""A strike at one copy of several, after which the service answered all along: a hit that needs no other effect.

Nobody's word is enough. Readings of the run say how many copies there were, that the struck one was there and is gone,
that no other was away, and that somebody else than the pipeline was answered meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.harness.processes import names
from tests.harness.results import Fault

SERVICE = "service"
"""The event of one reading."""
ENDS = ("sigkill", "pod_delete_now", "rollout", "node_drain", "disk_lost")
"""Kinds that end the container of whom they strike. Who stood still, and goes on, is gone from no reading."""
ANSWER_S = 20.0
"""For so long a reading asks again: twice the session after which a killed broker is replaced as a leader (9 s)."""
GAP_MS = 25_000
"""Between two readings at most: one that asks for as long as it may, and what the API takes to tell the pods."""

Event = Mapping[str, Any]


def complaint(fault: Fault, events: Iterable[Event]) -> str | None:
    """Tell what keeps a strike from counting as absorbed by copies; None where its evidence is whole.

    Args:
        fault: as it was told.
        events: the history; what is not a reading is passed over.
    """
    if fault.kind not in ENDS:
        return f"{fault.kind} does not end whom it strikes"
    if fault.healed_at is None:
        return "when all copies were back is not known"
    readings = defaultdict(list)
    for event in events:
        if event["event"] == SERVICE:
            readings[event["role"]].append(event)
    left, answered = names(fault.process_before), False
    for role, its in readings.items():
        its.sort(key=lambda one: int(one["t"]))
        mine = {who for who in left if any(who in one["ready"] for one in its)}
        if not mine:
            continue
        if (why := _not_absorbed(role, mine, its, fault)) is not None:
            return why
        left -= mine
        answered |= "answered" in its[0]
    if left:
        return f"no reading counts the copies of {min(left)}"
    return None if answered else "nobody asked the service meanwhile"


def _not_absorbed(role: str, struck: set[str], readings: Sequence[Event], fault: Fault) -> str | None:
    """Tell why the copies of one role did not absorb it."""
    since, until = fault.since, fault.healed_at or fault.injected_at
    before = [one for one in readings if one["t"] <= since][-1:]
    if not before or not struck <= set(before[0]["ready"]):
        return f"the last reading before it does not count {min(struck)} among the copies of the {role}"
    copies = before[0]["copies"]
    if copies < 2 or len(before[0]["ready"]) < copies:
        return f"{len(before[0]['ready'])} of {copies} copies of the {role} were there when it came, and it takes two"
    during = [one for one in readings if one["t"] > since and one["asked"] <= until]
    moments = [before[0]["t"], *(one["t"] for one in during), until]
    if any(later - one > GAP_MS for one, later in pairwise(moments)):
        return f"the {role} was not asked for {max(b - a for a, b in pairwise(moments)) / 1000:g} s meanwhile"
    if silent := [one for one in during if one.get("answered") is False]:
        return f"the {role} did not answer at {silent[0]['t']}: {silent[0].get('says', '')}"
    seen = [one for one in readings if one["asked"] > since]
    if any(len(one["ready"]) < copies - 1 for one in during if one["asked"] > since):
        return f"more than one copy of the {role} was away at once"
    if still := struck & set(seen[-1]["ready"] if seen else before[0]["ready"]):
        return f"{min(still)} was not gone from any reading: it was not hit"
    if not any(since < one["asked"] and len(one["ready"]) < copies for one in during):
        return f"no reading was taken while a copy of the {role} was away"
    return None
