"""Which faults hit: the claim of each fault is confirmed, or refuted, from the history's epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tests.harness.aftermath import effects_of
from tests.harness.checkers import announced, cuts, disks, driver_away, lags, lasting, leader, role, slow_disks, witness
from tests.harness.checkers.backlog import Backlog
from tests.harness.checkers.clock import shows_step
from tests.harness.checkers.measured import measure
from tests.harness.checkers.stalls import STALL, unshown
from tests.harness.evidence import EvidenceError
from tests.harness.processes import announced_by, names
from tests.harness.results import Effect, Fault
from tests.harness.signals import SIGNALS

ENDING = (*witness.ENDING, "node_restart")
"""Kinds of fault that nobody outlives: whoever was struck cannot be struck again."""
STOPPING = ("sigstop", "sigstop_beyond_time_out", "zombie", STALL, leader.LEADER_AWAY)
"""Kinds of fault under which a process stands still."""
ANSWERING = ("error_answers", "late_answers", "lost_answers", "no_room")
"""Kinds of fault under which answers go wrong on their way; the server does not notice."""
STEPPING = "clock_step"
"""The kind of fault under which a driver's clock is off; it may go on, or end and be followed."""
LEADING = "leader_move"
"""The kind of fault under which every broker goes on, and another one leads."""
OUTLIVED = (
    "sigstop",
    "sigstop_beyond_time_out",
    "taken_id",
    STALL,
    STEPPING,
    LEADING,
    *ANSWERING,
    cuts.CUT,
    slow_disks.SLOW_DISK,
    lags.LAGGING,
    leader.LEADER_AWAY,
)
"""Kinds of fault after which it may be the same process that goes on."""
REPLACING = ("zombie", "second_driver")
"""Kinds of fault that a driver ends of by its refusal."""
REFUSAL = "StaleDriverError"


@dataclass(frozen=True)
class Checked:
    """A fault as confirmed. `refuted` tells why a hit that was claimed is none; `fault.hit` is then False.

    A fault that is true, and had no effect, is no hit either.
    """

    fault: Fault
    refuted: str | None = None

    @property
    def idle(self) -> bool:
        """Whether it happened as it was told, and the history shows nothing of it."""
        return self.refuted is None and self.fault.effect is Effect.NONE


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


def refutation(fault: Fault, events: Sequence[dict[str, Any]], *, chained: bool) -> str | None:
    """Tell why a claimed hit is none, or None when the history confirms it.

    Args:
        fault: the claim.
        events: the history.
        chained: whether the pipeline has a chain; a control has none, and batches in the place of epochs.

    """
    name = f"{fault.kind} of {fault.target} {fault.process_before or ''} at {fault.injected_at}"
    if not effects_of(fault.kind, fault.target):
        return f"{name}: there is no such fault"
    if (why := _unreal(fault, events)) is not None:
        return f"{name}: {why}"
    if fault.epoch is None:
        return f"{name}: it names no epoch"
    spans = running(events, fault.epoch)
    if not any(start <= fault.injected_at <= end for start, end in spans):
        told = ", ".join(f"{start} to {end}" for start, end in spans) or "never"
        return f"{name}: epoch {fault.epoch} was not running then, but {told}"
    why = witness.complaint(fault, events) if chained else None
    return None if why is None else f"{name}: {why}"


def _out_of_order(fault: Fault, events: Sequence[dict[str, Any]]) -> str | None:
    """Tell which moments of a fault contradict each other."""
    if fault.healed_at is not None and fault.healed_at < fault.injected_at:
        return "it was undone before it came"
    if fault.first_at is not None:
        begun = (start for start, _ in running(events, fault.epoch or 0))
        if not any(start <= fault.first_at < fault.injected_at for start in begun):
            return "its first blow fell before its epoch was running, or not before the last"
    return None


def _unreal(fault: Fault, events: Sequence[dict[str, Any]]) -> str | None:
    """Tell what of a fault's own evidence is missing, or shows that nothing happened to the process."""
    if fault.signal not in (None, SIGNALS.get(fault.kind)):
        return f"it says {fault.signal}, and its kind sends {SIGNALS.get(fault.kind, 'no signal')}"
    if not fault.process_before or not fault.process_after:
        return "the process before and after it is not known"
    if fault.kind not in OUTLIVED and names(fault.process_before) & names(fault.process_after):
        return "the process survived it"
    if fault.kind in STOPPING and not fault.stopped_s:
        return "for how long it stood still is not known"
    why = _out_of_order(fault, events) or role.complaint(fault, events)
    return why or _unmet(fault, events) or unshown(fault, events) or _find_unfollowed(fault, events)


def _unmet(fault: Fault, events: Iterable[dict[str, Any]]) -> str | None:
    """Tell what shows that a fault which nobody has to end of met nothing."""
    if fault.kind == STEPPING and not shows_step(events, fault.injected_at, fault.healed_at):
        return "nothing that a driver told is dated by the clock that was stepped, and none ended of it"
    if fault.kind in ANSWERING and not sum((fault.requests or {}).values()):
        return "no request is known that it hit"
    if fault.kind == LEADING and not any(one.changed for one in (fault.leaders or {}).values()):
        return "no partition is known that got another leader"
    if fault.kind == "taken_id" and not fault.reopened:
        return "that the transaction was opened again is not known"
    own = {
        cuts.CUT: cuts.complaint,
        slow_disks.SLOW_DISK: slow_disks.complaint,
        lags.LAGGING: lags.complaint,
        leader.LEADER_AWAY: leader.complaint,
        disks.DISK_LOST: disks.complaint,
    }.get(fault.kind)
    return None if own is None else own(fault)


def _find_unfollowed(fault: Fault, events: Iterable[dict[str, Any]]) -> str | None:
    """Tell what of a driver's end and of its successor is missing."""
    if fault.kind in REPLACING and REFUSAL not in (fault.refusal or ""):
        return "its refusal is not recorded"
    if fault.kind == driver_away.AWAY and (why := driver_away.complaint(fault, events)) is not None:
        return why
    outlived = fault.kind in OUTLIVED and names(fault.process_before) & names(fault.process_after)
    if fault.target == "driver" and not outlived and not _took_over(fault, events):
        return f"the history does not tell that {fault.process_after} took over after it"
    return None


def _took_over(fault: Fault, events: Iterable[dict[str, Any]]) -> bool:
    after = names(fault.process_after)
    return any(
        event["event"] == "driver"
        and event.get("state") == "started"
        and event["t"] >= fault.injected_at
        and any(announced_by(who, event) for who in after)
        for event in events
    )


def _overlap(one: Fault, other: Fault) -> bool:
    """Whether two faults are of one kind and process, and the one came before the other was undone."""
    if (one.kind, one.process_before) != (other.kind, other.process_before):
        return False
    first, second = sorted((one, other), key=lambda fault: fault.injected_at)
    return second.injected_at <= (first.healed_at or first.injected_at)


def check(events: Sequence[dict[str, Any]], *, chained: bool = True, backlog: Backlog | None = None) -> list[Checked]:
    """Check every fault of a history, in its order, and measure its effect and its recovery.

    Args:
        events: the history.
        chained: whether the pipeline has a chain.
        backlog: of the run, where it is known.

    Raises:
        EvidenceError: a fault event lacks a field or has one of another type.

    """
    found: list[Checked] = []
    killed: set[str] = set()
    told: list[Fault] = []
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
        fault = measure(fault, events, backlog)
        if not chained:
            # Nothing but the batches is told of a control; what its kill did, its output shows.
            fault = fault.model_copy(update={"effect": None})
        if not fault.hit:
            found.append(Checked(fault))
            continue
        why, who = refutation(fault, events, chained=chained), f"{fault.kind} of {fault.target} {fault.process_before}"
        struck = names(fault.process_before)
        if why is None and (complaint := lasting.too_long(fault, event["t"])) is not None:
            why = f"{who}: {complaint}"
        if why is None and chained and (complaint := announced.complaint(event, events)) is not None:
            why = f"{who}: {complaint}"
        if why is None and any(_overlap(fault, other) for other in told):
            why = f"{who}: it is told of it twice at one time"
        if why is None and struck & killed:
            why = f"{who}: this process was killed before"
        if why is None and chained and fault.recovered_s is None:
            why = f"{who}: no epoch that was declared or done again after it was published"
        told.append(fault)
        if fault.kind in ENDING:
            killed |= struck
        hit = why is None and fault.effect is not Effect.NONE
        found.append(Checked(fault.model_copy(update={"hit": hit}), why))
    return found
