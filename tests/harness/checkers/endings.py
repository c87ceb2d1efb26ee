"""How drivers ended: that one was killed counts where a fault that hit, or the witness, says so too.

Who is killed says nothing of why it could not go on. So a line that says `killed` would excuse a driver which a sink
refused, and hide that the pipeline stopped for good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.harness.checkers.case import Case
from tests.harness.checkers.faults import Checked
from tests.harness.checkers.vacuity import guard
from tests.harness.checkers.witness import BLOWS, KILLED, POD_ENDS_MS, PROCESS_ENDS_MS, TAKES_MS, TICK_S, Census
from tests.harness.processes import is_driver, names, started_s
from tests.harness.results import Fault, Oracle

NAME = "endings"
ENDS = ("stopped", "killed", "ended")
STATES = ("started", "standby", *ENDS, "repaired")
"""Of a driver: of one that waits nothing else is told; of the last only what an operator did after its end."""
KILLING = (*BLOWS, "pod_delete_graceful", "node_restart", "node_drain")
"""Kinds of fault that can kill a driver. Others stop it, or have it end by its own words."""
Event = Mapping[str, Any]


class Endings:
    """What is told of the ends of drivers, and by whom.

    Args:
        events: the history.
        faults: as they were confirmed.
    """

    def __init__(self, events: Sequence[Event], faults: Iterable[Fault]) -> None:
        self._told = [one for one in events if one["event"] == "driver"]
        self._hits = [fault for fault in faults if fault.hit]
        self._lives = Census(events).lives

    def is_killed(self, driver: object) -> bool:
        """Whether a driver is told to have been killed, and another than who tells it says so too."""
        return any(self._is_shown(line) for line in self._of("killed", driver))

    def complaints(self) -> list[str]:
        """Describe lines that nobody confirms, and drivers of which nobody tells how they ended."""
        states = [one.get("state") for one in self._told]
        found = [f"a driver is told to have been {state!r}" for state in states if state not in STATES]
        found += [
            f"driver {line.get('pid')} is told to have been killed, and neither a fault that hit nor a witness says so"
            for line in self._of("killed")
            if not (self._is_shown(line) or self._may_be(line))
        ]
        found += [
            f"driver {line.get('pid')} is told to have been killed as {line['process']}, which is another one"
            for line in self._of("killed")
            if line.get("process") is not None and not is_driver(str(line["process"]), line.get("pid"))
        ]
        ends = Counter((str(one.get("pid")), one.get("state")) for one in self._told if one.get("state") in ENDS)
        # A kernel gives numbers anew: each who started with one may end.
        begun = Counter(str(one.get("pid")) for one in self._of("started"))
        found += [
            f"driver {driver} is told twice to have been {state}"
            for (driver, state), number in ends.items()
            if number > max(1, begun[driver])
        ]
        starts = {(str(one.get("pid")), one.get("generation")) for one in self._of("started")}
        found += [
            f"driver {line.get('pid')} stopped as generation {line.get('generation')}, and did not start as that"
            for line in self._of("stopped")
            if (str(line.get("pid")), line.get("generation")) not in starts
        ]
        ended = {driver for driver, _ in ends}
        found += [
            f"nobody tells how driver {driver} ended"
            for driver in dict.fromkeys(str(line.get("pid")) for line in self._of("started"))
            if driver not in ended and not self._find_gone({"pid": driver})
        ]
        return found

    def _of(self, state: str, driver: object = None) -> list[Event]:
        return [
            one
            for one in self._told
            if one.get("state") == state and (driver is None or str(one.get("pid")) == str(driver))
        ]

    def _is_shown(self, line: Event) -> bool:
        """Whether a fault that hit struck this driver then, or the witness saw it end by the signal."""
        within = _within(line)
        if self._ended_otherwise(line):
            return False
        struck = any(
            fault.kind in KILLING
            and any(_is_of(line, who) for who in names(fault.process_before))
            and -TAKES_MS <= line["t"] - fault.injected_at <= within
            for fault in self._hits
        )
        return struck or any(code in KILLED and abs(at - line["t"]) <= within for at, code in self._find_gone(line))

    def _may_be(self, line: Event) -> bool:
        """Whether the witness saw this driver end then, and nobody could read its exit code."""
        if self._ended_otherwise(line):
            return False
        return any(code is None and abs(at - line["t"]) <= _within(line) for at, code in self._find_gone(line))

    def _ended_otherwise(self, line: Event) -> bool:
        """Whether the driver of a line ended with an exit code of its own."""
        return any(
            one.get("code") not in KILLED and not self._another_between(line, one)
            for one in self._of("ended", line.get("pid"))
        )

    def _another_between(self, line: Event, other: Event) -> bool:
        """Whether a driver of the same number started between two lines, so that they are of two drivers."""
        first, last = sorted((line["t"], other["t"]))
        return any(first < one["t"] <= last for one in self._of("started", line.get("pid")))

    def _find_gone(self, line: Event) -> list[tuple[int, Any]]:
        """Return when the witness last saw the driver of a line, if it is gone, and its exit code."""
        return [
            (life.first if life.last is None else life.last, life.code)
            for who, life in self._lives.items()
            if life.gone is not None and _is_of(line, who)
        ]


def judge(case: Case, checked: Iterable[Checked]) -> Oracle:
    """Demand that of each driver it is known how it ended, and of who was killed that it was."""
    drivers = {str(one.get("pid")) for one in case.events if one["event"] == "driver"}
    complaints = Endings(case.events, (one.fault for one in checked)).complaints()
    return guard(NAME, f"how each of {len(drivers)} drivers ended is known", complaints)


def _is_of(line: Event, who: str) -> bool:
    """Whether a process, or a container of a pod, is the driver of a line, which may name the process too."""
    own = line.get("process")
    return is_driver(who, line.get("pid")) and (own is None or _is_same(who, str(own)))


def _is_same(who: str, own: str) -> bool:
    """Whether two names are of one process. Who strikes and the witness each reckon when the machine was booted."""
    one, other = started_s(who), started_s(own)
    if one is None or other is None:
        return who == own or who.startswith(f"{own}/")
    return abs(one - other) <= TICK_S


def _within(line: Event) -> int:
    """Within so long the blow, its line and the driver's end are: a pod's end is told by its node."""
    return POD_ENDS_MS if "@" in str(line.get("pid")) else PROCESS_ENDS_MS
