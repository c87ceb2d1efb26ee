"""Which faults hit: the claim of each fault is confirmed, or refuted, from the history's epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tests.harness.evidence import EvidenceError
from tests.harness.results import Fault

ENDING = ("sigkill", "zombie", "pod_delete_now", "pod_delete_graceful")
"""Kinds of fault that nobody outlives: whoever was struck cannot be struck again."""
STOPPING = ("sigstop", "zombie")
"""Kinds of fault under which a process stands still; after `sigstop` it may be the same one that goes on."""
REFUSAL = "StaleDriverError"
TICK_S = 0.02
SERVERS = ("broker", "object store")


@dataclass(frozen=True)
class Checked:
    """A fault as confirmed. `refuted` tells why a hit that was claimed is none; `fault.hit` is then False."""

    fault: Fault
    refuted: str | None = None


def running(events: Iterable[dict[str, Any]], epoch: int) -> list[tuple[int, int]]:
    """Return when an epoch was running, as (from, to) in ms, both included.

    It runs from `declared` to `published` of one driver; when that driver never published it, to the `published` of
    the driver that recovered it.
    """
    declared: list[tuple[int, Any]] = []
    published: list[tuple[int, Any]] = []
    for event in events:
        if event["event"] == "epoch" and event.get("epoch") == epoch:
            states = {"declared": declared, "published": published}
            states.get(str(event.get("state")), []).append((event["t"], event.get("driver")))
    spans: list[tuple[int, int]] = []
    for start, driver in declared:
        own = [end for end, by in published if by == driver and end >= start]
        anyone = [end for end, _ in published if end >= start]
        if own or anyone:
            spans.append((start, min(own or anyone)))
    return spans


def names(processes: str | None) -> set[str]:
    """Return the processes of a fault; several struck at once are joined by ` + `."""
    return {one for one in (processes or "").split(" + ") if one}


def refutation(fault: Fault, events: Sequence[dict[str, Any]], *, chained: bool) -> str | None:
    """Tell why a claimed hit is none, or None when the history confirms it.

    Args:
        fault: the claim.
        events: the history.
        chained: whether the pipeline has a chain; a control has none and need not tell its epochs.

    """
    name = f"{fault.kind} of {fault.target} {fault.process_before or ''} at {fault.injected_at}"
    if (why := _unreal(fault, events)) is not None:
        return f"{name}: {why}"
    epochs_told = any(event["event"] == "epoch" for event in events)
    if not chained and not (epochs_told and fault.epoch is not None):
        return None
    if fault.epoch is None:
        return f"{name}: it names no epoch"
    spans = running(events, fault.epoch)
    if not any(start <= fault.injected_at <= end for start, end in spans):
        told = ", ".join(f"{start} to {end}" for start, end in spans) or "never"
        return f"{name}: epoch {fault.epoch} was not running then, but {told}"
    return None


def _unreal(fault: Fault, events: Iterable[dict[str, Any]]) -> str | None:
    """Tell what of a fault's own evidence is missing, or shows that nothing happened to the process."""
    if not fault.process_before or not fault.process_after:
        return "the process before and after it is not known"
    if fault.kind != "sigstop" and names(fault.process_before) & names(fault.process_after):
        return "the process survived it"
    if fault.kind in STOPPING and not fault.stopped_s:
        return "for how long it stood still is not known"
    if fault.kind == "zombie" and REFUSAL not in (fault.refusal or ""):
        return "its refusal after waking is not recorded"
    if fault.target == "driver" and not _took_over(fault, events):
        return f"the history does not tell that {fault.process_after} took over after it"
    return None


def _took_over(fault: Fault, events: Iterable[dict[str, Any]]) -> bool:
    pids = {who.partition("@")[0] for who in names(fault.process_after)}
    return any(
        event["event"] == "driver" and event.get("state") == "started" and str(event.get("pid")) in pids
        and event["t"] >= fault.injected_at
        for event in events
    )  # fmt: skip


def replaced_s(fault: Fault) -> float | None:
    """Tell how long after a fault the last process that took a place was started, in seconds.

    None where no process took a place, or it does not say when it was started (a pod does not).
    """
    started: list[float] = []
    for who in names(fault.process_after) - names(fault.process_before):
        try:
            started.append(float(who.partition("@")[2]))
        except ValueError:
            return None
    # One that was started before the fault is no news of how long one takes. Starts are told to the clock tick.
    took = max(started) - fault.injected_at / 1000 if started else -1.0
    return round(max(took, 0.0), 3) if took > -TICK_S else None


def recovered_s(fault: Fault, events: Iterable[dict[str, Any]]) -> float | None:
    """Tell how long after a fault an epoch was published, in seconds; None when none was.

    Of a server that was away it is an epoch published when it was back: one that was nearly done is no recovery.
    """
    if fault.target not in SERVERS or fault.healed_at is None:
        return fault.recovered_s
    back = fault.healed_at
    times = (e["t"] for e in events if e["event"] == "epoch" and e.get("state") == "published" and e["t"] >= back)
    first = min(times, default=None)
    return None if first is None else round((first - fault.injected_at) / 1000, 3)


def check(events: Sequence[dict[str, Any]], *, chained: bool = True) -> list[Checked]:
    """Check every fault of a history, in its order.

    Raises:
        EvidenceError: a fault event lacks a field or has one of another type.

    """
    found: list[Checked] = []
    killed: set[str] = set()
    for event in events:
        if event["event"] != "fault":
            continue
        fields = {name: event[name] for name in Fault.model_fields if name in event}
        try:
            fault = Fault(**fields)
        except ValidationError as error:
            raise EvidenceError(
                f"a fault event is incomplete ({error.errors()[0]['loc'][0]}: {error.errors()[0]['msg']})",
                "history.jsonl",
                "record every field of the fault",
            ) from error
        fault = fault.model_copy(update={"replaced_s": replaced_s(fault), "recovered_s": recovered_s(fault, events)})
        if not fault.hit:
            found.append(Checked(fault))
            continue
        why = refutation(fault, events, chained=chained)
        struck = names(fault.process_before)
        if why is None and struck & killed:
            why = f"{fault.kind} of {fault.target} {fault.process_before}: this process was killed before"
        if fault.kind in ENDING:
            killed |= struck
        found.append(Checked(fault.model_copy(update={"hit": why is None}), why))
    return found
