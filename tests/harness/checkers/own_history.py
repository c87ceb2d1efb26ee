"""What a negative control's own history has to tell: the control from begin to end, and the kill that it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.harness.checkers.case import Case
from tests.harness.checkers.clock import APART_MS
from tests.harness.checkers.faults import Checked
from tests.harness.checkers.lines import EVENTS, STATES
from tests.harness.checkers.telling import find_miscounted
from tests.harness.checkers.vacuity import guard
from tests.harness.controls.names import EVERY
from tests.harness.evidence import EvidenceError
from tests.harness.results import Oracle

NAME, KILL = "history", "kill"
BEGIN, END = "steady", "judge"
"""Phases of a control: it plays beside a run, which has the others."""
KILLED = {one.name: one.killed for one in EVERY}
"""Control -> whether it shows something only of a kill. Its manifest is not asked."""
TARGET = ("sigkill", "executor")


def judge(case: Case) -> Oracle:
    """Demand that the history goes from the control's begin to its end, with its batches in between."""
    return guard(NAME, f"{len(case.events)} events, from its begin to its end", [*_gaps(case.events)])


def kill(case: Case, checked: Iterable[Checked]) -> Oracle:
    """Demand a kill that hit where the control shows something only of one."""
    name = str(case.manifest.control)
    if name not in KILLED:
        raise EvidenceError(f"there is no control {name}", case.run.manifest_path, "judge an unaltered run")
    if not KILLED[name]:
        return guard(KILL, "it shows what it must without a kill", [])
    hits = sum(one.fault.hit and (one.fault.kind, one.fault.target) == TARGET for one in checked)
    complaints = [] if hits else ["it shows something only of a kill, and none hit a batch that is told of"]
    return guard(KILL, f"{hits} kills hit one of its batches", complaints)


def _gaps(events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for at, phase in ((0, BEGIN), (len(events) - 1, END)):
        if (events[at]["event"], events[at].get("phase")) != ("phase", phase):
            yield f"line {at + 1} is not that of phase {phase}: the history is cut, or the control was"
    if (phases := sum(event["event"] == "phase" for event in events)) > len((BEGIN, END)):
        yield f"it has {phases} phases, a control has {BEGIN} and {END}"
    yield from find_miscounted(events)
    declared: Counter[tuple[Any, Any]] = Counter()
    published, (begun, over) = 0, (events[0]["t"] - APART_MS, events[-1]["t"] + APART_MS)
    for number, event in enumerate(events, start=1):
        if event["event"] not in EVENTS:
            yield f"line {number} tells of {event['event']!r}, which is no event"
        if not begun <= event["t"] <= over:
            yield f"line {number} is of {event['t']}, which is before the begin or after the end"
        if event["event"] != "epoch":
            continue
        batch, state = (event.get("epoch"), event.get("driver")), event.get("state")
        if state not in STATES:
            yield f"line {number} tells of a batch that was {state!r}"
        published += state == "published"
        declared[batch] += 1 if state == "declared" else -1
        if declared[batch] < 0:
            yield f"driver {batch[1]} published batch {batch[0]}, and nothing tells that it began"
    if any(left > 0 for left in declared.values()):
        yield "a batch began, and nothing tells that it was published"
    if not published:
        yield "no batch is told to have been published"
