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
    before = next((one for one in reversed(readings) if one["t"] <= since), None)
    if before is None or not struck <= set(before["ready"]):
        return f"the last reading before it does not count {min(struck)} among the copies of the {role}"
    if before["copies"] < 2 or len(before["ready"]) < before["copies"]:
        there = f"{len(before['ready'])} of {before['copies']} copies of the {role} were there"
        return f"{there} when it came, and it takes two, and all of them"
    later = [one for one in readings if one["asked"] > since]
    if still := struck & set((later or [before])[-1]["ready"]):
        return f"{min(still)} is in every reading after it: it was not hit"
    during = [one for one in readings if one["t"] > since and one["asked"] <= until]
    return _silent(role, [before["t"], *(one["t"] for one in during), until], during) or _not_alone(role, since, during)


def _silent(role: str, moments: Sequence[int], during: Sequence[Event]) -> str | None:
    """Tell when the service did not answer, or nobody asked it."""
    gap = max(after - before for before, after in pairwise(moments))
    if gap > GAP_MS:
        return f"the {role} was not asked for {gap / 1000:g} s meanwhile"
    silent = next((one for one in during if one.get("answered") is False), None)
    return None if silent is None else f"the {role} did not answer at {silent['t']}: {silent.get('says', '')}"


def _not_alone(role: str, since: int, during: Sequence[Event]) -> str | None:
    """Tell that another copy was away too, or that no reading was taken while one was."""
    away = max((one["copies"] - len(one["ready"]) for one in during if one["asked"] > since), default=0)
    if away > 1:
        return f"{away} copies of the {role} were away at once"
    return None if away == 1 else f"no reading was taken while a copy of the {role} was away"
