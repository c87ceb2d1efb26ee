"""What a stall has to show: that somebody stood still as long as planned, and what the pipeline did beyond a time-out.

The same of a request to Spark: what Spark says became of the task or stage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.harness.processes import names
from tests.harness.results import Fault

STALL = "stall"
REQUESTED = {"task_kill": "KILLED", "stage_cancel": "FAILED"}
"""Kinds that Spark carries out, and what it says of whom it ended."""
LEAST_TIME_OUT_S = 10.0
"""No time-out of a pipeline is shorter: clients wait for an answer that long."""
SAME, REPLACED = "same", "replaced"
ROLES = ("executor", "python worker", "driver", "broker", "object store", "result store", "operator", "kubelet")


def unshown(fault: Fault, events: Iterable[dict[str, Any]]) -> str | None:
    """Tell what of the evidence of a stall or a request is missing or contradicts itself; None when nothing is."""
    if fault.kind in REQUESTED and fault.spark_says != REQUESTED[fault.kind]:
        return f"Spark does not say that it was {REQUESTED[fault.kind].lower()}, but {fault.spark_says or 'nothing'}"
    if fault.kind != STALL:
        return None
    if fault.planned_s is None or fault.stopped_s is None:
        return "for how long it was to stand still is not known"
    replaced = not names(fault.process_before) & names(fault.process_after)
    if fault.stopped_s < fault.planned_s and not replaced:
        return f"it stood still for {fault.stopped_s:g} s, and {fault.planned_s:g} s were planned"
    if fault.response is None:
        beyond = fault.stopped_s > LEAST_TIME_OUT_S
        return "it outlasted a time-out, and what the pipeline did is not known" if beyond else None
    return _find_contradiction(fault, fault.response.split(" + "), replaced, events)


def _find_contradiction(fault: Fault, said: list[str], replaced: bool, events: Iterable[dict[str, Any]]) -> str | None:
    """Tell what a response claims that processes or history deny."""
    known = {SAME, *(f"{role} {REPLACED}" for role in ROLES)}
    if not set(said) <= known or (SAME in said and len(said) > 1):
        return f"{fault.response!r} is nothing that a pipeline does"
    if replaced and SAME in said:
        return f"{fault.process_after} took the place of {fault.process_before}, and the response says {SAME}"
    starts = [
        one["t"]
        for one in events
        if one["event"] == "driver" and one.get("state") == "started" and one["t"] >= fault.injected_at
    ]
    if f"driver {REPLACED}" in said:
        return None if starts else "the response says that the driver was replaced, and none started after it"
    if fault.healed_at is not None and any(at <= fault.healed_at for at in starts):
        return f"a driver started while it stood still, and the response is {fault.response!r}"
    return None
