"""What others than the injector tell of a fault: the pipeline of its epoch, kernel or Kubernetes of its processes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.harness.processes import WORKER, announced_by, names, started_s
from tests.harness.results import Fault

Events = Sequence[Mapping[str, Any]]

UNWITNESSED = "recorded before processes had a second witness: the history tells of none that came or went"
TICK_S = 0.05
"""Clock ticks, and two reckonings of when the machine was booted."""
PROCESS_ENDS_MS, POD_ENDS_MS = 10_000, 60_000
"""Within so long after a blow whoever was struck is gone, on a busy machine too, and of pods as their node tells it."""
TAKES_MS = 1_000
"""The pipeline's own clock and the announcements' differ by some 30 ms, a busy machine's by less than that."""
KILLED = (-9, 137)
"""Exit codes of who was ended by SIGKILL: as a parent is told, and as a shell or a container tells it."""
BLOWS = ("sigkill", "out_of_memory", "pod_delete_now", "away", "forgotten_markers", "disk_lost")
ENDING = (*BLOWS, "zombie", "second_driver", "restart", "pod_delete_graceful", "rollout", "node_drain")
"""Kinds that end whom they strike, at once or later."""
REPLACED = (
    "executor",
    "every executor",
    "executor JVM",
    "driver",
    "broker",
    "controller",
    "object store",
    "result store",
    "operator",
)
"""Targets in whose place another process is started. A task's next worker may be an old one."""
ROLE_OF = {
    **dict.fromkeys(("executor", "every executor", "executor JVM", "neighbours"), "executor"),
    "driver": None,
    **{role: role for role in ("python worker", "broker", "object store", "result store")},
}
_PROCESS = re.compile(r"\d+@\d+(\.\d+)?")
_POD = re.compile(rf"[a-z0-9.-]+@[0-9a-f]{{8}}-[0-9a-f-]{{27}}(/[0-9a-f]*|{WORKER}\d+)?")
"""Or a worker of it: the node tells of none, its announcements do."""


class _Life:
    """When one process was first seen, when last, when it was found gone (ms), and its exit code where it is known."""

    def __init__(self, event: Mapping[str, Any]) -> None:
        self.first, self.role = int(event["t"]), event.get("role")
        self.last: int | None = None
        self.gone: int | None = None
        self.code: int | None = None


class Census:
    """Processes and pods, as the witness noted them.

    Args:
        events: the history.
    """

    def __init__(self, events: Events) -> None:
        self.lives: dict[str, _Life] = {}
        for event in events:
            if event["event"] != "process" or not isinstance(event.get("process"), str):
                continue
            life = self.lives.setdefault(event["process"], _Life(event))
            if event.get("state") == "gone":
                last = event.get("last")
                life.gone, life.last = int(event["t"]), last if type(last) is int else life.first
                life.code = event.get("code")

    def of(self, who: str) -> list[_Life]:
        """Return the lives of a process, or of the containers of a pod; nothing where nobody saw it."""
        if _PROCESS.fullmatch(who):
            pid, start = who.partition("@")[0], started_s(who) or 0.0
            return [
                life
                for name, life in self.lives.items()
                if name.partition("@")[0] == pid and abs((started_s(name) or 0.0) - start) <= TICK_S
            ]
        return [life for name, life in self.lives.items() if name == who or name.startswith(f"{who}/")]

    def another_with_its_pid(self, who: str, moments: Iterable[int]) -> str | None:
        """Name the process that had the pid of one, which nobody saw, at one of some moments: only one has it then."""
        if not _PROCESS.fullmatch(who) or self.of(who):
            return None
        pid = who.partition("@")[0]
        return next(
            (
                name
                for name, life in self.lives.items()
                if _PROCESS.fullmatch(name)
                and name.partition("@")[0] == pid
                and any(life.first <= at and (life.gone is None or at <= life.gone) for at in moments)
            ),
            None,
        )


def complaint(fault: Fault, events: Events) -> str | None:
    """Tell what of a fault nobody else confirms, or somebody denies; None when all is confirmed."""
    return _find_unannounced(fault, events) or _find_stretched(fault, events) or _find_unwitnessed(fault, events)


def _find_unannounced(fault: Fault, events: Events) -> str | None:
    """Tell that the epoch never came by the step at which it is said to have been struck."""
    step, _, sink = (fault.phase or "").partition(":")
    for event in events:
        if event.get("epoch") != fault.epoch or event["t"] > fault.injected_at:
            continue
        if event["event"] == "step" and (event.get("step"), event.get("sink") or "") == (step, sink):
            return None
        if event["event"] == "epoch" and event.get("state") == step == "declared":
            return None
    return f"epoch {fault.epoch} had not come by {fault.phase!r} when it was struck"


def _find_stretched(fault: Fault, events: Events) -> str | None:
    """Tell that the epoch is told to have run for another time than its driver measured."""
    declared: dict[Any, int] = {}
    for event in events:
        if event["event"] != "epoch" or event.get("epoch") != fault.epoch:
            continue
        if event.get("state") == "declared":
            declared[event.get("driver")] = event["t"]
        elif event.get("driver") in declared:
            took, said = event["t"] - declared[event.get("driver")], (event.get("ms") or {}).get("total")
            if not isinstance(said, int) or abs(took - said) > TAKES_MS:
                return f"epoch {fault.epoch} is told to have taken {took} ms, and its driver measured {said}"
    return None


def _find_unwitnessed(fault: Fault, events: Events) -> str | None:
    """Tell of a process that nobody else saw, that was not struck then, or that had taken no place."""
    before, after = names(fault.process_before), names(fault.process_after)
    known = [who for who in sorted(before | after) if _PROCESS.fullmatch(who) or _POD.fullmatch(who)]
    census = Census(events)
    nameless = sorted((before | after) - {*known})
    if nameless and census.lives and fault.target in (*REPLACED, *ROLE_OF):
        return f"{nameless[0]} names neither a process nor a pod, so nobody can have seen it"
    if known and not census.lives:
        return UNWITNESSED
    for who in known:
        lives = census.of(who)
        # That it was killed is the injector's word.
        own = [e for e in events if e["event"] == "step" or (e["event"], e.get("state")) == ("driver", "started")]
        announced = [e["t"] for e in own if announced_by(who, e)]
        if not lives and not announced:
            return f"nobody but the injector saw {who}"
        other = census.another_with_its_pid(who, [fault.injected_at] if who in before else announced)
        if other is not None:
            return f"{who} is not who was there then: its pid was that of {other}"
        why = _of_another_role(fault, who, lives)
        if who in before:
            why = why or _not_struck(fault, who, lives, announced)
        elif fault.target in REPLACED and fault.kind in ENDING:
            why = why or _not_new(fault, who, lives)
        if why is not None:
            return why
    return None


def _of_another_role(fault: Fault, who: str, lives: list[_Life]) -> str | None:
    """Tell that who was struck, or took the place, is noted to be somebody else."""
    roles = {life.role for life in lives if life.role} - {ROLE_OF.get(fault.target)}
    return f"{who} is no {fault.target}, but a {roles.pop()}" if fault.target in ROLE_OF and roles else None


def _not_struck(fault: Fault, who: str, lives: list[_Life], announced: Iterable[int]) -> str | None:
    """Tell what speaks against a process having been there when it was struck, or having ended of it."""
    first = min([*(life.first for life in lives), *announced])
    if first > fault.injected_at:
        return f"{who} was first seen {first - fault.injected_at} ms after it is told to have been struck"
    return _not_ended(fault, who, lives) if fault.kind in ENDING and lives else None


def _not_ended(fault: Fault, who: str, lives: list[_Life]) -> str | None:
    """Tell what speaks against a process having ended of a fault."""
    gone = [life.gone for life in lives if life.gone is not None]
    if len(gone) < len(lives):
        return f"{who} was not seen to end"
    if max(gone) < fault.since:
        return f"{who} was gone {fault.since - max(gone)} ms before it is told to have been struck"
    last = max(life.last or life.first for life in lives)
    otherwise = [life.code for life in lives if life.code not in (None, *KILLED)]
    if fault.kind == "sigkill" and otherwise:
        return f"{who} was not killed: it ended with exit code {otherwise[0]}"
    within = PROCESS_ENDS_MS if _PROCESS.fullmatch(who) else POD_ENDS_MS
    if fault.kind in BLOWS and last > fault.injected_at + within:
        return f"{who} was still there {last - fault.injected_at} ms after it is told to have ended"
    return None


def _not_new(fault: Fault, who: str, lives: list[_Life]) -> str | None:
    """Tell that who is said to have taken a place was there before it was free."""
    started = started_s(who) if _PROCESS.fullmatch(who) else None
    begun = 1000 * (started + TICK_S) if started is not None else min((life.first for life in lives), default=None)
    if begun is not None and begun < fault.since:
        return f"{who} took no place: it began {fault.since - begun:.0f} ms before the fault"
    return None
