"""What the figure shows, before it is drawn: the stretch of time, phases, drivers, epochs, records and faults."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.harness.report import naming, typeset
from tests.harness.report.epochs import Attempt
from tests.harness.report.lenient import real, text
from tests.harness.report.series import Flow, lag

AFTER_THE_RUN = ("controls", "judge")


@dataclass(frozen=True)
class Span:
    """A named stretch of the run, in milliseconds since 1970."""

    name: str
    begin: float
    end: float


@dataclass(frozen=True)
class Lane:
    """A role other than the driver's: while one of its processes was away, by fault, `killed` or standing `still`."""

    name: str
    away: list[tuple[Span, str]]


@dataclass(frozen=True)
class Story:
    """What the figure shows, before it is drawn: all times in milliseconds since 1970."""

    start: float
    begin: float
    end: float
    phases: list[Span]
    attempts: list[Attempt]
    flow: Flow
    faults: list[dict[str, Any]]
    drivers: list[Span]
    lanes: list[Lane]


def tell(
    history: Sequence[dict[str, Any]],
    attempts: list[Attempt],
    flow: Flow,
    faults: list[dict[str, Any]],
    start: float,
) -> Story | None:
    """Choose the stretch of time to draw: all of the run but controls and judging. None when nothing happened."""
    last = float(history[-1]["t"]) if history else 0.0
    phases = spans_of_phases(history, last)
    shown = [phase for phase in phases if phase.name not in AFTER_THE_RUN]
    drivers = spans_of_drivers(history, attempts, last)
    moments = [attempt.ended_at for attempt in attempts] + [time for time, _ in flow.sent]
    moments += [attempt.declared_at for attempt in attempts]
    moments += [moment for phase in shown for moment in (phase.begin, phase.end)]
    injected = [real(fault.get("injected_at")) for fault in faults]
    moments += [time for time in injected if time is not None and history and history[0]["t"] <= time <= last]
    if not moments or max(moments) <= min(moments):
        return None
    return Story(start, min(moments), max(moments), shown, attempts, flow, faults, drivers, lanes_of(faults))


def lanes_of(faults: Sequence[dict[str, Any]]) -> list[Lane]:
    """Return a lane for every role that was struck but the driver, whose processes have lanes of their own."""
    lanes: dict[str, list[tuple[Span, str]]] = {}
    for number, fault in enumerate(faults, 1):
        role, injected = text(fault.get("target")), real(fault.get("injected_at"))
        if not role or role == "driver" or injected is None:
            continue
        still, replaced = real(fault.get("stopped_s")), real(fault.get("replaced_s"))
        healed = real(fault.get("healed_at")) if role not in naming.PIPELINE else None
        lasted = healed - injected if healed is not None else 1000 * (still or replaced or 0.0)
        span = Span(f"fault {number}: {naming.describe_deed(fault)}", injected, injected + max(lasted, 0.0))
        lanes.setdefault(naming.role(role), []).append((span, "killed" if still is None else "still"))
    return [Lane(name, lanes[name]) for name in sorted(lanes, key=naming.place)]


def spans_of_phases(history: Sequence[dict[str, Any]], last: float) -> list[Span]:
    """Return the phases one after the other; each lasts until the next begins."""
    found: list[Span] = []
    for event in history:
        if event.get("event") != "phase":
            continue
        name, time = text(event.get("phase")), float(event["t"])
        if found:
            found[-1] = Span(found[-1].name, found[-1].begin, time)
        if not found or found[-1].name != name:
            found.append(Span(name, time, last))
        else:
            found[-1] = Span(name, found[-1].begin, last)
    return found


def spans_of_drivers(history: Sequence[dict[str, Any]], attempts: Sequence[Attempt], last: float) -> list[Span]:
    """Return how long each driver lived, as its events say or, without any, as its epochs show."""
    alive: dict[str, float] = {}
    found: list[Span] = []
    for event in history:
        if event.get("event") != "driver":
            continue
        pid, time = text(event.get("pid")), float(event["t"])
        if event.get("state") == "started":
            alive[pid] = time
        elif pid in alive:
            found.append(Span(f"driver {pid} {text(event.get('state'))}", alive.pop(pid), time))
    found.extend(Span(f"driver {pid}", time, last) for pid, time in alive.items())
    if found:
        return sorted(found, key=lambda span: span.begin)
    seen: dict[str, Span] = {}
    for attempt in attempts:
        before = seen.get(attempt.driver)
        begin = before.begin if before else attempt.declared_at
        end = max(before.end if before else 0.0, attempt.ended_at)
        seen[attempt.driver] = Span(f"driver {attempt.driver}", begin, end)
    return list(seen.values())


def sentence(of: Story) -> str:
    """Say what the figure shows, for those who cannot see it."""
    sent = of.flow.sent[-1][1] if of.flow.sent else 0.0
    published = of.flow.published[-1][1] if of.flow.published else 0.0
    peak = max(lag(of.flow), key=lambda point: point[1], default=(of.begin, 0.0))
    faults = [
        f"{naming.name_fault(fault)} at {typeset.moment(real(fault.get('injected_at')), of.start)}"
        for fault in of.faults
    ]
    told = f"{len(faults)} faults: {'; '.join(faults[:20])}." if faults else "No fault."
    return (
        f"From {typeset.span(of.begin, of.end, of.start)} after the start: {typeset.count(round(sent))} records sent, "
        f"{typeset.count(round(published))} published; the lag was largest at {typeset.moment(peak[0], of.start)} "
        f"with {typeset.count(round(peak[1]))} records. {told}"
    )
