"""Which faults hit: the claim of each fault is confirmed, or refuted, from the history's epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tests.harness.evidence import EvidenceError
from tests.harness.results import Fault

ENDING = ("sigkill", "pod_delete_now", "pod_delete_graceful")
"""Kinds of fault that nobody outlives: whoever was struck cannot be struck again."""


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
    if not fault.process_before or not fault.process_after:
        return f"{name}: the process before and after it is not known"
    if names(fault.process_before) & names(fault.process_after):
        return f"{name}: the process survived it"
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
        if not fault.hit:
            found.append(Checked(fault))
            continue
        why = refutation(fault, events, chained=chained)
        struck = names(fault.process_before)
        if why is None and fault.kind in ENDING and struck & killed:
            why = f"{fault.kind} of {fault.target} {fault.process_before}: this process was killed before"
        killed |= struck
        found.append(Checked(fault.model_copy(update={"hit": why is None}), why))
    return found
