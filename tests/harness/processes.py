"""Processes as the evidence of a fault names them, and who of them announced something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OF_PIPELINE = ("executor", "every executor", "executor JVM", "neighbours", "driver", "python worker", "task", "stage")
"""Targets that are the pipeline's own processes; every other is a server or a part of the machine under it."""
WORKER = "/worker-"
"""Between a pod and the number that a Python worker of it has there."""


def names(processes: str | None) -> set[str]:
    """Return the processes of a fault; several struck at once are joined by ` + `."""
    return {one for one in (processes or "").split(" + ") if one}


def started_s(who: str) -> float | None:
    """Return when a process `pid@start time` began, in seconds since 1970; None of a pod, whose name does not say."""
    try:
        return float(who.partition("@")[2])
    except ValueError:
        return None


def announced_by(who: str, event: Mapping[str, Any]) -> bool:
    """Return whether an announcement comes from a process of a fault.

    Args:
        who: `pid@start time`; a pod `name@uid`, or the start of its uid; a worker in a pod, `name@uid/worker-pid`.
        event: of the history.

    """
    name, _, of = who.partition("@")
    if "pod" not in event:
        return str(event.get("pid")) == name
    uid, _, worker = of.partition(WORKER)
    return (
        event["pod"] == name
        and bool(uid)
        and str(event.get("pod_uid", "")).startswith(uid)
        and worker in ("", str(event.get("pid")))
    )


def is_driver(who: str, driver: object) -> bool:
    """Return whether a process of a fault, or of the witness, is the driver that history names so.

    Args:
        who: `pid@start time`; a pod `name@uid`, or a container of it.
        driver: a pid; a pod `name@start of its uid`.

    """
    (name, _, of), (own, _, uid) = who.partition("@"), str(driver).partition("@")
    return name == own and of.startswith(uid)
