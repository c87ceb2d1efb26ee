"""Whether a fault's evidence needs a line of a history: what nobody needs may be altered.

A fault needs that its epoch came as far as it says, a sign that it had an effect, and that others than its injector saw
whom it struck and who took their place. What several lines show, one of them need not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tests.harness.aftermath import effects_of
from tests.harness.checkers.faults import ENDING
from tests.harness.checkers.witness import PROCESS_ENDS_MS, TICK_S
from tests.harness.processes import announced_by, names, started_s
from tests.harness.results import Effect
from tests.tampered.altered import Altered, Row

PUBLICATIONS = 2
"""With the second one after a fault, or after the return of who was away, the pipeline has recovered from it."""


def by_no_fault(altered: Altered) -> bool:
    """Whether what the faults of a history need stands without the lines that are lost, and none gets more by others.

    A fault whose reach none of them is in needs none of them.
    """
    lines = [*altered.lost, *altered.gained]
    return _are_events(altered) and all(
        not any(_touches(fault, line, altered.rows) for line in lines) or _stands(fault, altered)
        for fault in _faults(altered)
    )


def by_no_fault_that_names(altered: Altered) -> bool:
    """Whether no fault names the process of a line, as it was or as it is."""
    lines = [*altered.lost, *altered.gained]
    return _are_events(altered) and not any(_is_named(fault, line) for fault in _faults(altered) for line in lines)


def by_no_fault_that_struck(altered: Altered) -> bool:
    """Whether no fault struck the process of a line that tells how it ended; who took a place may end later."""
    lines = [*altered.lost, *altered.gained]
    return _are_events(altered) and not any(
        _is_of(str(line.get("process")), fault.get("process_before")) for fault in _faults(altered) for line in lines
    )


def names_the_same_process(altered: Altered) -> bool:
    """Whether only the start that goes with a pid is another, by less than two reckonings of it may differ."""
    now = [line for line in altered.gained if isinstance(line, dict)]
    field = altered.alteration.field.rpartition(".")[2]
    new = str(now[0].get(field)) if now else ""
    one, other = started_s(str(altered.value)), started_s(new)
    same_pid = str(altered.value).partition("@")[0] == new.partition("@")[0]
    return same_pid and one is not None and other is not None and abs(one - other) <= TICK_S


def without_another_that_names_one(altered: Altered) -> bool:
    """Whether no other fault names the announcement that it struck at."""
    return sum(fault.get("announced_at") is not None for fault in _faults(altered)) < 2


def says_nothing_alone(altered: Altered) -> bool:
    """Whether each word that is lost goes no further than another one, which speaks of no more records than it does."""
    return all(
        any(
            other.get("source") == word["source"]
            and other["time_ms"] >= word["time_ms"]
            and all(end <= word["offsets"].get(partition, 0) for partition, end in other["offsets"].items())
            for other in altered.rest
            if "offsets" in other
        )
        for word in altered.lost
        if "offsets" in word
    )


def with_moments_on_their_side(altered: Altered) -> bool:
    """Whether a process still came, and went, on that side of each fault that names it on which it did."""
    if not _are_events(altered):
        return False
    old, new = altered.lost[0], altered.gained[0]
    moments = [fault["injected_at"] for fault in _faults(altered) if _is_named(fault, old)]
    return all((old["t"] <= at) is (new["t"] <= at) and new.get("last", at) <= at + PROCESS_ENDS_MS for at in moments)


def since_others_announce(altered: Altered) -> bool:
    """Whether each fault that names a process which is noted no more finds it announced, or need not see its end."""
    if not _are_events(altered):
        return False
    old = {_pid(line) for line in altered.lost}
    for fault in _faults(altered):
        if any(_is_named(fault, new) and _pid(new) not in old for new in altered.gained):
            return False
        for line in altered.lost:
            struck = _is_of(line["process"], fault.get("process_before"))
            until = fault["injected_at"] if struck else None
            if line["state"] == "gone" and struck and fault["kind"] in ENDING:
                return False
            if _is_named(fault, line) and not _is_announced(line["process"], altered.rest, until):
                return False
    return True


def _are_events(altered: Altered) -> bool:
    """Whether the altered lines are still events of some time."""
    return all(
        isinstance(line, dict) and type(line.get("t")) is int and isinstance(line.get("event"), str)
        for line in (*altered.lost, *altered.gained)
    )


def _faults(altered: Altered) -> list[Row]:
    return [row for row in altered.rows if row["event"] == "fault"]


def _is_named(fault: Row, line: Row) -> bool:
    who = line.get("process")
    return isinstance(who, str) and any(_is_of(who, fault.get(one)) for one in ("process_before", "process_after"))


def _pid(line: Row) -> str:
    return str(line.get("process")).partition("@")[0]


def _is_of(who: str, processes: str | None) -> bool:
    """Whether a process is one of a fault's; one with its pid counts as the same, as does a container of a pod."""
    pid = who.partition("@")[0]
    return any(one.partition("@")[0] == pid or who.startswith(f"{one}/") for one in names(processes))


def _is_announced(who: str, rows: Iterable[Row], until: int | None) -> bool:
    return any(
        announced_by(who, row)
        for row in rows
        if (row["event"] == "step" or (row["event"], row.get("state")) == ("driver", "started"))
        and (until is None or row["t"] <= until)
    )


def _recovered(fault: Row, rows: Sequence[Row], number: int) -> int:
    """Return when so many epochs were published after a fault, or the history ends."""
    back = fault.get("healed_at") or fault["injected_at"]
    times: list[int] = sorted(row["t"] for row in rows if _is(row, "published") and row["t"] > back)
    return times[number - 1] if len(times) >= number else max(int(row["t"]) for row in rows)


def _touches(fault: Row, line: Row, rows: Sequence[Row]) -> bool:
    """Whether a line may be evidence of a fault: of its epoch, of its processes, or told before it was over."""
    named = (names(fault.get("process_before")) | names(fault.get("process_after"))) if "pid" in line else ()
    within = fault["injected_at"] <= line["t"] <= _recovered(fault, rows, PUBLICATIONS)
    return line.get("epoch") == fault.get("epoch") or within or any(announced_by(who, line) for who in named)


def _stands(fault: Row, altered: Altered) -> bool:
    """Whether a fault has what it needs, and had its effect without the new lines too."""
    rest, at = altered.rest, fault["injected_at"]
    now = [*rest, *altered.gained]
    step, _, sink = (fault.get("phase") or "").partition(":")
    came = step == "declared" or any(
        row["event"] == "step"
        and row.get("epoch") == fault.get("epoch")
        and row["t"] <= at
        and (row.get("step"), row.get("sink") or "") == (step, sink)
        for row in now
    )
    own = {Effect.MET, Effect.OUTSIDE} & {*effects_of(fault["kind"], fault["target"])}
    return (
        came and _is_noted_elsewhere(fault, altered) and (bool(own) or min(_signs(fault, rest), _signs(fault, now)) > 0)
    )


def _is_noted_elsewhere(fault: Row, altered: Altered) -> bool:
    """Whether each process of a fault that an altered line announced is noted, or announced, by others too."""
    struck = names(fault.get("process_before"))
    return all(
        any(row["event"] == "process" and _is_of(row["process"], who) for row in altered.rest)
        or _is_announced(who, altered.rest, fault["injected_at"] if who in struck else None)
        for who in struck | names(fault.get("process_after"))
        if any(announced_by(who, line) for line in altered.lost if "pid" in line)
    )


def _signs(fault: Row, rows: Sequence[Row]) -> int:
    """Count what shows that work was done again after a fault, or that another driver came."""
    at, until = fault["injected_at"], _recovered(fault, rows, 1)
    before = [row for row in rows if row["t"] <= at]
    begun = {repr(_work(row)) for row in before if row["event"] in ("step", "epoch")}
    tries = Counter[Any]()
    for row in before:
        if row["event"] == "step":
            tries[str(row.get("epoch"))] = max(tries[str(row.get("epoch"))], _tries(row))
    return sum(
        (row["event"] == "step" and (repr(_work(row)) in begun or _tries(row) > tries[str(row.get("epoch"))]))
        or (_is(row, "declared") and repr(_work(row)) in begun)
        or (_is(row, "published") and row.get("repeat") is True)
        or (row["event"], row.get("state")) == ("driver", "started")
        for row in rows
        if at < row["t"] <= until
    )


def _work(row: Row) -> tuple[Any, ...]:
    return row.get("epoch"), row.get("shard"), row.get("step"), row.get("sink"), row.get("state")


def _tries(row: Row) -> int:
    found = row.get("attempt")
    return found if type(found) is int else 0


def _is(row: Row, state: str) -> bool:
    return row["event"] == "epoch" and row.get("state") == state
