"""Gives a made-up history what a second witness of its faults would have noted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.harness.checkers import lines
from tests.harness.processes import names, started_s

Row = dict[str, Any]
ROLES = {"every executor": "executor", "executor JVM": "executor", "neighbours": "executor"}
ENDING = (
    "sigkill",
    "away",
    "zombie",
    "second_driver",
    "restart",
    "out_of_memory",
    "pod_delete_now",
    "pod_delete_graceful",
)


def processes_of(faults: Iterable[Row]) -> list[Row]:
    """What is noted of the processes of faults: that they were there, and that those which were ended are gone."""
    found: list[Row] = []
    for fault in faults:
        if event_of(fault) != "fault" or not isinstance(fault.get("injected_at"), int):
            continue
        at, target = fault["injected_at"], fault["target"]
        before = names(fault.get("process_before"))
        for who in sorted(before | names(fault.get("process_after"))):
            role = ROLES.get(target, target)
            told = {"role": role} if role in lines.ROLES else {}
            first = round(1000 * (started_s(who) or (at - 1 if who in before else at + 1) / 1000))
            seen = {"event": "process", "process": who}
            found.append({**seen, **told, "t": min(first, at) if who in before else first, "state": "seen"})
            if who in before and fault["kind"] in ENDING:
                found.append({**seen, "t": at + 100, "state": "gone", "last": at})
    return found


def event_of(row: Row) -> Any:
    """Return the sort of an event."""
    return row.get("event")


def witnessed(events: list[Row]) -> list[Row]:
    """Return a history with what was noted of the processes of its faults."""
    return [*events, *processes_of(events)]
