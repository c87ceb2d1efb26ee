"""What a fault's recovery took, measured from the history whatever the injector said of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.harness.aftermath import Aftermath, came_back_at
from tests.harness.checkers.backlog import Backlog
from tests.harness.processes import announced_by, names, started_s
from tests.harness.results import Fault

TICK_S = 0.02


def replaced_s(fault: Fault, events: Iterable[dict[str, Any]] = ()) -> float | None:
    """Tell how long after a fault the last process that took a place was started, in seconds.

    A pod does not say when it was started: of it, to its first announcement after the fault. None where no process
    took a place, or one is not heard of.
    """
    started: list[float] = []
    for who in sorted(names(fault.process_after) - names(fault.process_before)):
        if (start := started_s(who)) is None:
            heard = (
                one["t"] for one in events if "pod" in one and one["t"] >= fault.injected_at and announced_by(who, one)
            )
            if (first := min(heard, default=None)) is None:
                return None
            start = first / 1000
        started.append(start)
    # One that was started before the fault is no news of how long one takes. Starts are told to the clock tick.
    took = max(started) - fault.injected_at / 1000 if started else -1.0
    return round(max(took, 0.0), 3) if took > -TICK_S else None


def measure(fault: Fault, events: Sequence[dict[str, Any]], backlog: Backlog | None) -> Fault:
    """Measure a fault's effect and recovery from the history, whatever the injector said of it."""
    aftermath = Aftermath(fault, events)
    recovered = aftermath.recovered_at
    waited = None if backlog is None else backlog.usual_at(fault.injected_at)
    caught_up = None
    if backlog is not None and waited is not None and fault.injected_at <= backlog.until:
        at = backlog.caught_up_at(came_back_at(fault) if recovered is None else recovered, waited)
        caught_up = None if at is None else round((at - fault.injected_at) / 1000, 3)
    return fault.model_copy(
        update={
            "replaced_s": replaced_s(fault, events),
            "backlog": waited,
            "caught_up_s": caught_up,
            "recovered_s": None if recovered is None else round((recovered - fault.injected_at) / 1000, 3),
            "effect": aftermath.effect if fault.hit else None,
        }
    )
