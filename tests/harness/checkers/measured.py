"""What a fault's recovery took, measured from the history whatever the injector said of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.harness.checkers.backlog import Backlog
from tests.harness.results import Fault

TICK_S = 0.02
OF_PIPELINE = ("executor", "every executor", "executor JVM", "neighbours", "driver", "python worker", "task", "stage")
"""Targets that are the pipeline's own processes; every other is a server or a part of the machine under it."""


def names(processes: str | None) -> set[str]:
    """Return the processes of a fault; several struck at once are joined by ` + `."""
    return {one for one in (processes or "").split(" + ") if one}


def announced_by(who: str, event: Mapping[str, Any]) -> bool:
    """Return whether an announcement comes from a process `pid@start time`, or a pod `name@uid` or start of its uid."""
    name, _, of = who.partition("@")
    if "pod" in event:
        return event["pod"] == name and bool(of) and str(event.get("pod_uid", "")).startswith(of)
    return str(event.get("pid")) == name


def replaced_s(fault: Fault, events: Iterable[dict[str, Any]] = ()) -> float | None:
    """Tell how long after a fault the last process that took a place was started, in seconds.

    A pod does not say when it was started: of it, to its first announcement after the fault. None where no process
    took a place, or one is not heard of.
    """
    started: list[float] = []
    for who in sorted(names(fault.process_after) - names(fault.process_before)):
        try:
            started.append(float(who.partition("@")[2]))
        except ValueError:
            heard = (
                one["t"] for one in events if "pod" in one and one["t"] >= fault.injected_at and announced_by(who, one)
            )
            if (first := min(heard, default=None)) is None:
                return None
            started.append(first / 1000)
    # One that was started before the fault is no news of how long one takes. Starts are told to the clock tick.
    took = max(started) - fault.injected_at / 1000 if started else -1.0
    return round(max(took, 0.0), 3) if took > -TICK_S else None


def back_at(fault: Fault) -> int:
    """Return from when on a publication is a recovery, in ms: the fault, or, of a server that was away, its return.

    An epoch that was nearly done when a server went is none.
    """
    away = fault.target not in OF_PIPELINE and fault.healed_at is not None
    return fault.healed_at if away and fault.healed_at is not None else fault.injected_at


def recovered_s(fault: Fault, events: Iterable[dict[str, Any]]) -> float | None:
    """Tell how long after a fault an epoch was published, in seconds; None when none was."""
    back = back_at(fault)
    times = (e["t"] for e in events if e["event"] == "epoch" and e.get("state") == "published" and e["t"] >= back)
    first = min(times, default=None)
    return None if first is None else round((first - fault.injected_at) / 1000, 3)


def measured(fault: Fault, events: Sequence[dict[str, Any]], backlog: Backlog | None) -> Fault:
    """Measure a fault's recovery from the history, whatever the injector said of it."""
    waited = None if backlog is None else backlog.usual_at(fault.injected_at)
    caught_up = None
    if backlog is not None and waited is not None and fault.injected_at <= backlog.until:
        at = backlog.caught_up_at(back_at(fault), waited)
        caught_up = None if at is None else round((at - fault.injected_at) / 1000, 3)
    return fault.model_copy(
        update={
            "replaced_s": replaced_s(fault, events), "recovered_s": recovered_s(fault, events), "backlog": waited,
            "caught_up_s": caught_up,
        }
    )  # fmt: skip
