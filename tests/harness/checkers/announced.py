"""At which announcement a fault struck: the pipeline's own line, of the epoch, step and shard that the fault tells.

That an epoch had come by a step its later steps show as well. So whoever strikes names the line that was waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.harness.schedule import DECLARED

Event = Mapping[str, Any]


def complaint(fault: Event, events: Sequence[Event]) -> str | None:
    """Tell that nobody announced what a fault says it struck at; None where somebody did.

    Args:
        fault: its event. Of a run recorded before faults named an announcement none does.
        events: the history.
    """
    at = fault.get("announced_at")
    if at is None:
        told = any(one.get("announced_at") is not None for one in events if one["event"] == "fault")
        return "it names no announcement that it struck at, and other faults do" if told else None
    if any(_is_it(one, fault) for one in events if one["t"] == at and type(at) is int):
        return None
    where = "" if fault.get("shard") is None else f" of shard {fault['shard']}"
    return f"epoch {fault.get('epoch')} did not announce {fault.get('phase')!r}{where} at {at}"


def _is_it(event: Event, fault: Event) -> bool:
    step, _, sink = str(fault.get("phase") or "").partition(":")
    if (event.get("epoch"), event.get("shard")) != (fault.get("epoch"), fault.get("shard")):
        return False
    if event["event"] == "epoch":
        return bool(event.get("state") == step == DECLARED)
    return event["event"] == "step" and (event.get("step"), event.get("sink") or "") == (step, sink)
