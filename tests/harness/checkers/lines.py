"""Whether each line of a history is one that its writer could have written: pure functions of recorded events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.harness.absorbed import SERVICE

EVENTS = ("phase", "epoch", "step", "fault", "driver", "sent", "unacknowledged", "process", "change", SERVICE)
"""All that a history tells of. A line of another sort would be passed over, and what it tells with it."""
STATES = ("declared", "published")
"""Of an epoch."""
SEEN, GONE = "seen", "gone"
"""States of a process."""
ROLES = ("executor", "python worker", "broker", "object store", "result store")
"""What a witness can tell of a process by its command line; of others it tells no role."""
COPIED = ("broker", "controller", "object store", "operator")
"""Servers that can have several copies, of which readings tell."""
OVER = -1
"""In place of when a process was first seen: it is gone, or nobody saw it."""
BACK_MS = 600_000
"""By so much no line is older than one before it: 60 s where a clock was stepped, less when a busy node tells late."""
Event = Mapping[str, Any]
Events = Sequence[Event]


def find_misplaced(events: Events) -> list[str]:
    """Describe lines of no known sort, with a time that is not of this place, or that nobody writes like this."""
    found: list[str] = []
    newest = 0
    declared = {one.get("epoch") for one in events if one["event"] == "epoch" and one.get("state") == "declared"}
    alive: dict[str, int] = {}
    for number, event in enumerate(events, start=1):
        found += [f"line {number} of the history {why}" for why in _faulty(event, declared, alive)]
        if event["t"] < newest - BACK_MS:
            found.append(f"line {number} of the history is {(newest - event['t']) / 1000:g} s older than one before it")
        newest = max(newest, event["t"])
    return found


def _faulty(event: Event, declared: set[Any], alive: dict[str, int]) -> Iterator[str]:
    sort, state = event["event"], event.get("state")
    if sort not in EVENTS:
        yield f"tells of {sort!r}, which is no event"
    elif sort == "epoch" and state not in STATES:
        yield f"tells of an epoch that was {state!r}"
    elif sort == "epoch" and state == "published" and type(event.get("repeat")) is not bool:
        yield f"does not say whether epoch {event.get('epoch')} was repeated"
    elif sort == "step":
        yield from _faulty_step(event, declared)
    elif sort == "process":
        yield from _faulty_process(event, alive)
    elif sort == SERVICE:
        yield from _faulty_reading(event)


def _faulty_step(event: Event, declared: set[Any]) -> Iterator[str]:
    """What no task announces: it knows its epoch, shard, attempt and process, and its epoch was declared."""
    for name in ("epoch", "shard", "attempt", "pid"):
        if not _is_count(event.get(name)):
            yield f"tells of a step whose {name} is {event.get(name)!r}"
            return
    if not _is_text(event.get("step")) or not (event.get("sink") is None or _is_text(event["sink"])):
        yield f"tells of step {event.get('step')!r} of sink {event.get('sink')!r}"
    elif event["epoch"] not in declared:
        yield f"tells of a step of epoch {event['epoch']}, which nobody declared"


def _faulty_process(event: Event, alive: dict[str, int]) -> Iterator[str]:
    """What no witness notes: it notes who is there, once, and then that this one is gone."""
    who, state, role = event.get("process"), event.get("state"), event.get("role")
    if state not in (SEEN, GONE) or not _is_text(who) or role not in (None, *ROLES):
        yield f"tells of process {who!r}, {role!r}, that was {state!r}"
        return
    who = str(who)
    if state == SEEN:
        if who in alive:
            yield f"tells of {who} as new, and it was there"
        alive[who] = event["t"]
        return
    first, last, code = alive.pop(who, OVER), event.get("last"), event.get("code")
    if "/" not in who:
        # A pod that is not listed for a moment comes back, a process does not.
        alive[who] = OVER
    if first == OVER:
        yield f"tells that {who} is gone, and it was not there"
    elif type(last) is not int or not first <= last <= event["t"]:
        yield f"tells that {who} was last seen at {last}, which is not between {first} and {event['t']}"
    elif type(code) not in (int, type(None)):
        yield f"tells that {who} ended with exit code {code!r}"


def _faulty_reading(event: Event) -> Iterator[str]:
    """What nobody notes who reads a service: of which copies, who of them was ready, and when it was asked."""
    role, ready, copies, asked = (event.get(name) for name in ("role", "ready", "copies", "asked"))
    named = isinstance(ready, list) and all(_is_text(who) for who in ready) and len({*ready}) == len(ready)
    if role not in COPIED or not named:
        yield f"tells of a service {role!r} whose copies are {ready!r}"
    elif type(copies) is not int or copies < 1:
        yield f"tells of {copies!r} copies of the {role}"
    elif type(asked) is not int or asked > event["t"] or event.get("answered") not in (True, False, None):
        yield f"tells that the {role} was asked at {asked!r} and answered: {event.get('answered')!r}"


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
