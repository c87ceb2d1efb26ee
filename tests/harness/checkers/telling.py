"""Whether the history tells the run whole, and the same as the chain: pure functions of recorded events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.harness.checkers import lines
from tests.harness.evidence import Chain

PHASES = ("warm-up", "steady", "drain", "epilogue", "judge")
"""Every run goes through these, in this order; those of faults come in between."""
_COUNTS = {"in": "in_", "accepted": "accepted", "duplicate": "duplicate", "late": "late", "malformed": "malformed"}
Events = Sequence[Mapping[str, Any]]


def cut(events: Events) -> list[str]:
    """Describe what shows that lines are missing: phases, an end, another number of lines than the end says."""
    phases = [event.get("phase") for event in events if event["event"] == "phase"]
    last = phases[-1] if phases else None
    if last != "judge":
        return [f"the history ends in phase {last}, due is judge: it is cut, or the run was"]
    found = [f"the history does not tell of phase {name}" for name in PHASES if name not in phases]
    first = [phases.index(name) for name in PHASES if name in phases]
    if first != sorted(first):
        found.append(f"the phases are out of order: {', '.join(str(phases[at]) for at in sorted(first))}")
    found += lines.find_misplaced(events)
    return found + find_miscounted(events)


def find_miscounted(events: Events) -> list[str]:
    """Describe that another number of lines stands before the last phase than it says, where it says one."""
    end = max((at for at, event in enumerate(events) if event["event"] == "phase"), default=0)
    said = events[end].get("lines") if events else None
    return [f"{end} lines stand before the end, which says {said}"] if said not in (None, end) else []


def find_unreported(chain: Chain, events: Events) -> list[str]:
    """Describe epochs that the chain and the history do not both know, and what they lack to be believed."""
    told = [event for event in events if event["event"] == "epoch"]
    published = {event.get("epoch") for event in told if event.get("state") == "published"}
    known = {record.epoch for record in chain.epochs}
    found = [f"history does not tell that epoch {epoch} was published" for epoch in sorted(known - published)]
    found += [
        f"history tells of epoch {epoch}, which the chain does not hold" for epoch in published if epoch not in known
    ]
    # Each publication needs a declaration of its own.
    declared: Counter[tuple[Any, Any]] = Counter()
    for event in told:
        attempt = (event.get("epoch"), event.get("driver"))
        if event.get("state") == "declared":
            declared[attempt] += 1
            continue
        if declared[attempt] < 1:
            found.append(
                f"driver {attempt[1]} published epoch {attempt[0]}, and history tells of no declaration before"
            )
        declared[attempt] -= 1
    started: dict[Any, set[str]] = {}
    for event in events:
        if event["event"] == "driver" and event.get("state") == "started":
            started.setdefault(event.get("generation"), set()).add(str(event.get("pid")))
    generations = dict.fromkeys([*(event.get("generation") for event in told), chain.head.generation])
    found += [f"history does not tell that generation {one} started" for one in generations if one not in started]
    attempts = dict.fromkeys((event.get("epoch"), event.get("generation"), str(event.get("driver"))) for event in told)
    found += [
        f"epoch {epoch} is told of driver {driver}, generation {generation} is {', '.join(sorted(started[generation]))}"
        for epoch, generation, driver in attempts
        if generation in started and driver not in started[generation]
    ]
    return found


def find_overtaken(events: Events) -> list[str]:
    """Describe epochs of an older generation beyond those that a newer one has taken over (R1 of protocol.md).

    A new driver begins with the epoch its predecessor declared last, or with the next. So, whenever it wakes, the
    older one may end that epoch, identically, but none after it.
    """
    epochs: dict[int, list[int]] = {}
    for event in events:
        if event["event"] == "epoch" and type(event.get("generation")) is int and type(event.get("epoch")) is int:
            epochs.setdefault(event["generation"], []).append(event["epoch"])
    found: list[str] = []
    begun: tuple[int, int] | None = None
    for generation in sorted(epochs, reverse=True):
        if begun is not None:
            beyond = sorted({epoch for epoch in epochs[generation] if epoch > begun[0]})
            found += [
                f"epoch {epoch}: declared or published by generation {generation}, after generation {begun[1]} had "
                f"taken over with epoch {begun[0]}"
                for epoch in beyond
            ]
        first = min(epochs[generation])
        begun = (first, generation) if begun is None or first < begun[0] else begun
    return found


def find_contradicted(chain: Chain, events: Events) -> list[str]:
    """Describe epochs that a driver published otherwise than the chain records them: other counts, or generation."""
    records = {record.epoch: record for record in chain.epochs}
    found: list[str] = []
    by: dict[int, set[Any]] = {}
    declared: set[int] = set()
    again: set[tuple[int, Any]] = set()
    for event in events:
        record = records.get(event.get("epoch", -1)) if event["event"] == "epoch" else None
        if record is None:
            continue
        by.setdefault(record.epoch, set()).add(event.get("generation"))
        # A driver that stood still may end, for the first time, what a newer one has declared again.
        attempt = (record.epoch, event.get("driver"))
        if event.get("state") == "declared":
            if record.epoch in declared:
                again.add(attempt)
            declared.add(record.epoch)
        if event.get("state") == "published":
            if attempt in again and event.get("repeat") is not True:
                found.append(f"epoch {record.epoch}: declared again, and published as if it were not")
            if lacking := [name for name in _COUNTS if type(event.get(name)) is not int]:
                found.append(f"epoch {record.epoch}: published without its number of {', '.join(lacking)}")
                continue
            said = {**event, "filtered": event.get("filtered", {}), "records": event.get("records")}
            meant = {name: getattr(record.counts, field) for name, field in _COUNTS.items()}
            found += [
                f"epoch {record.epoch}: published with {name} {said[name]} by generation {event.get('generation')}, "
                f"the chain says {due}"
                for name, due in {**meant, "filtered": record.filtered, "records": record.records}.items()
                if said[name] != due
            ]
    found += [
        f"epoch {epoch}: the chain says generation {records[epoch].generation}, the history {sorted(map(str, told))}"
        for epoch, told in by.items()
        if records[epoch].generation not in told
    ]
    return found
