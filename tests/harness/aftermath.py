"""What a history tells after a fault: the effect that it had, and the epoch with which the pipeline had recovered.

A fault that left no trace shows nothing: an executor that was killed when its work was done, a store that was away
while nobody asked it. Where other copies answered in the place of one, readings of the service show that. And an epoch
that was nearly done when the fault came is no recovery from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from tests.harness import absorbed
from tests.harness.processes import OF_PIPELINE, announced_by, names, started_s
from tests.harness.results import Effect, Fault

Event = Mapping[str, Any]

REDONE, SUCCEEDED, JOINED, HELD = Effect.REDONE, Effect.SUCCEEDED, Effect.JOINED, Effect.HELD
_EXECUTORS = ("executor", "every executor", "executor JVM", "neighbours", "python worker", "task", "stage")
_SERVERS = ("broker", "object store", "result store")
_WITH_DRIVER = ("operator at submission", "operator, then driver", "driver, then operator")
_OUTSIDE = ("operator", "controller", "kubelet", "API server", "DNS")
_STANDING = ("stall", "sigstop", "sigstop_beyond_time_out", "cut")
_API_SERVER, _DRIVER_AND_BROKER, _NODES = "API server", "driver and broker", "node and another node"
_CUT_OFF = ("driver and executor", "executor and executor")

BY_KIND: Mapping[str, tuple[Effect, ...]] = {
    "zombie": (SUCCEEDED,),
    "second_driver": (SUCCEEDED,),
    "taken_id": (REDONE,),
    "task_kill": (REDONE,),
    "stage_cancel": (REDONE,),
    "out_of_memory": (REDONE, JOINED),
    # Of four drives a node of three has two: while it is away nothing is written, and nothing is done again.
    **dict.fromkeys(("node_restart", "node_drain"), (REDONE, SUCCEEDED, JOINED, HELD)),
    **dict.fromkeys(("error_answers", "late_answers", "lost_answers", "no_room"), (Effect.MET,)),
    "leader_move": (Effect.MET,),
    "clock_step": (Effect.MET,),
    "slow_disk": (Effect.MET,),
    "away": (SUCCEEDED,),
    "held_back": (Effect.MET,),
    "leader_away": (Effect.MET,),
}
"""Kind -> what shows its effect, any of it, whatever the target. `MET`: evidence of its own, which is demanded."""
BY_TARGET: Mapping[str, tuple[Effect, ...]] = {
    **dict.fromkeys(_EXECUTORS, (REDONE, JOINED)),
    "driver": (SUCCEEDED,),
    **dict.fromkeys(_SERVERS, (REDONE, SUCCEEDED, HELD)),
    **dict.fromkeys(_WITH_DRIVER, (SUCCEEDED,)),
    **dict.fromkeys(_OUTSIDE, (Effect.OUTSIDE,)),
}
"""Target -> what shows the effect of a blow, of every other kind."""
BLOWS = (
    "sigkill",
    "forgotten_markers",
    "pod_delete_now",
    "pod_delete_graceful",
    "restart",
    "rollout",
    "disk_lost",
    *_STANDING,
)
"""Kinds of which the target decides."""
LEAST_HELD = 0.5
"""So much of the time that somebody was away the epoch has to have stood still: some goes on in any case, at the begin
and the end of it."""
GIVEN_UP_MS = 20_000
"""Spark goes on without an executor that is cut off, and the epoch with it: measured 16 to 20 s after the cut."""


def effects_of(kind: str, target: str) -> tuple[Effect, ...]:
    """Return what shows that a fault had an effect, any of it; nothing where there is no such fault."""
    if kind in BY_KIND:
        return BY_KIND[kind]
    if kind not in BLOWS:
        return ()
    if kind == "cut":
        # What the API server is asked can wait, and a driver asks the broker between two epochs: the one that runs need
        # not show it, and the cut's own evidence is what was dropped.
        # Neither need one between nodes, where copies on the third answer.
        met = _API_SERVER in target or target in (_DRIVER_AND_BROKER, _NODES)
        return (Effect.MET,) if met else (REDONE, SUCCEEDED, HELD)
    shown = BY_TARGET.get(target, ())
    of_pipeline = target in OF_PIPELINE and kind in _STANDING
    return tuple(dict.fromkeys((*shown, REDONE, SUCCEEDED, HELD))) if of_pipeline else shown


def came_back_at(fault: Fault) -> int:
    """Return from when on a publication is a recovery, in ms: the fault, or, of a server that was away, its return."""
    away = fault.target not in OF_PIPELINE and fault.healed_at is not None
    return fault.healed_at if away and fault.healed_at is not None else fault.injected_at


class Aftermath:
    """What a history tells after one fault, up to the next one.

    Args:
        fault: as it was told, measured or not.
        events: the history, in any order.
    """

    def __init__(self, fault: Fault, events: Sequence[Event]) -> None:
        self._fault, self._at = fault, fault.injected_at
        # What comes after the next fault is the next one's.
        later = (e.get("injected_at") for e in events if e["event"] == "fault")
        until = min((at for at in later if type(at) is int and at > self._at), default=None)
        told = [e for e in events if e["event"] in ("epoch", "step", "driver")]
        told.sort(key=lambda event: int(event["t"]))
        # What is told of the same millisecond may have been before it.
        self._before = [e for e in told if e["t"] <= self._at]
        self._after = [e for e in told if e["t"] > self._at]
        self._until = until
        self._readings = [e for e in events if e["event"] == absorbed.SERVICE]

    @cached_property
    def effect(self) -> Effect:
        """What shows that the fault had an effect, the first of its kind's that is found; NONE where nothing does.

        ABSORBED where nothing does because other copies answered.
        """
        finds = {
            Effect.MET: lambda: True,
            Effect.OUTSIDE: lambda: True,
            HELD: self._held,
            REDONE: lambda: any(at <= self._end for at in self._redone.values()),
            SUCCEEDED: self._succeeded,
            JOINED: self._joined,
        }
        shown = effects_of(self._fault.kind, self._fault.target)
        found = next((effect for effect in shown if finds[effect]()), Effect.NONE)
        if found is Effect.NONE and self._readings and absorbed.complaint(self._fault, self._readings) is None:
            return Effect.ABSORBED
        return found

    @cached_property
    def recovered_at(self) -> int | None:
        """When an epoch was published that was declared or done again after the fault, in ms; None when none was.

        Of a server that was away, at its return or later.
        """
        declared: dict[tuple[Any, Any], int] = {}
        back = came_back_at(self._fault)
        for event in self._after:
            attempt = (event.get("epoch"), event.get("driver"))
            if _is(event, "declared"):
                declared.setdefault(attempt, event["t"])
            elif _is(event, "published") and event["t"] >= back:
                again = self._redone.get(event.get("epoch"))
                if attempt in declared or (again is not None and again <= event["t"]):
                    return int(event["t"])
        return None

    @property
    def idle(self) -> bool:
        """Whether the last that is told of epochs is a publication: without more records none follows."""
        states = [e.get("state") for e in (*self._before, *self._after) if e["event"] == "epoch"]
        return bool(states) and states[-1] == "published"

    @property
    def _end(self) -> int:
        """Up to when what is told is the fault's: its recovery, or the next fault."""
        ends = [at for at in (self.recovered_at, self._until) if at is not None]
        return min(ends) if ends else max((e["t"] for e in self._after), default=self._at)

    @cached_property
    def _redone(self) -> dict[Any, int]:
        """Epoch -> when something of it was first done again because of this fault, and not of one before it.

        A task is tried again by Spark (its attempt has a number), or a step that was announced is announced again;
        head declares the epoch again; or its publication says that it was repeated.
        """
        epochs: dict[Any, _Begun] = {}
        for event in self._before:
            epochs.setdefault(event.get("epoch"), _Begun()).take(event)
        found: dict[Any, int] = {}
        for event in self._after:
            begun = epochs.get(event.get("epoch"), _NOTHING)
            if begun.is_redone_by(event):
                found.setdefault(event.get("epoch"), event["t"])
        return found

    def _succeeded(self) -> bool:
        """Whether a driver of a newer generation than all before it started."""
        newest = max((_generation(e) for e in self._before), default=0)
        return any(
            e["event"] == "driver"
            and e.get("state") == "started"
            and e["t"] <= self._end
            and (e.get("generation") is None or _generation(e) > newest)
            for e in self._after
        )

    def _joined(self) -> bool:
        """Whether a pod that took a place announced a step."""
        fresh = names(self._fault.process_after) - names(self._fault.process_before)
        return any(
            e["event"] == "step" and "pod" in e and e["t"] <= self._end and any(announced_by(who, e) for who in fresh)
            for e in self._after
        )

    def _held(self) -> bool:
        """Whether the epoch that ran stood still while somebody was away, for the better part of that time.

        An executor that is cut off is away until Spark goes on without it.
        """
        until = self._away_until()
        if until is None or until <= self._at:
            return False
        if self._fault.target in _CUT_OFF:
            until = min(until, self._at + GIVEN_UP_MS)
        elif any(self._at < e["t"] < until for e in self._after if _is(e, "published")):
            return False
        least = LEAST_HELD * (until - self._at)
        return any(min(end, until) - max(begin, self._at) >= least for begin, end in self._pauses())

    def _pauses(self) -> list[tuple[int, int]]:
        """Stretches in which nothing was announced of the epoch that ran, from its declaration to its publication."""
        mine = [e for e in (*self._before, *self._after) if e.get("epoch") == self._fault.epoch]
        declared = max((e["t"] for e in mine if _is(e, "declared") and e["t"] <= self._at), default=None)
        published = min((e["t"] for e in mine if _is(e, "published") and e["t"] >= self._at), default=None)
        if declared is None or published is None:
            return []
        return list(pairwise(e["t"] for e in mine if declared <= e["t"] <= published))

    def _away_until(self) -> float | None:
        """When who was struck was there again, or its successor was started, in ms; None when it is not known."""
        lasted = self._fault.stopped_s or self._fault.cut_s
        if lasted:
            return self._at + 1000 * lasted
        fresh = names(self._fault.process_after) - names(self._fault.process_before)
        starts = [at for who in fresh if (at := started_s(who)) is not None]
        return 1000 * max(starts) if starts else self._fault.healed_at


class _Begun:
    """What was announced of an epoch before a fault, since head declared it last."""

    def __init__(self) -> None:
        self.declared = 0
        self.repeated = False
        self._tries = 0
        self._rounds: Counter[tuple[Any, ...]] = Counter()

    def take(self, event: Event) -> None:
        """Take note of one announcement."""
        if _is(event, "declared"):
            self.declared += 1
            self.repeated |= self.declared > 1
            self._tries = 0
            self._rounds.clear()
        elif event["event"] == "step":
            work = _work(event)
            self._rounds[work] += 1
            self._tries = max(self._tries, _attempt(event))
            self.repeated |= self._tries > 0 or self._rounds[work] > 1

    def is_redone_by(self, event: Event) -> bool:
        """Whether an announcement after the fault shows that the epoch is done again, and not for an earlier fault."""
        if event["event"] == "step":
            # While an epoch is done again, what was done but once is due to the fault before.
            rounds = self._rounds[_work(event)]
            again = rounds > 0 and rounds >= max(self._rounds.values())
            return again or _attempt(event) > self._tries
        if _is(event, "declared"):
            return self.declared > 0
        return _is(event, "published") and event.get("repeat") is True and not self.repeated


_NOTHING = _Begun()


def _work(event: Event) -> tuple[Any, ...]:
    """Return what a step is, the same when it is done again."""
    return event.get("shard"), event.get("step"), event.get("sink")


def _attempt(event: Event) -> int:
    """Return the number of a task's attempt; 0 where it is none, of which the guard of the history tells."""
    found = event.get("attempt")
    return found if type(found) is int else 0


def _is(event: Event, state: str) -> bool:
    return event["event"] == "epoch" and event.get("state") == state


def _generation(event: Event) -> int:
    found = event.get("generation")
    return found if type(found) is int else 0
