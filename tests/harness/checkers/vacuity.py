"""Vacuity guards: a verdict counts only when something was sent, published, killed and controlled.

A guard that does not hold makes the run *unknown*: nothing was refuted, but nothing was shown either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.harness.checkers import loss, telling
from tests.harness.checkers.backlog import first_publications
from tests.harness.checkers.case import Case, refute, source_of
from tests.harness.checkers.clock import APART_MS, span_of_run
from tests.harness.checkers.faults import Checked
from tests.harness.checkers.reference import Outcome, is_malformed
from tests.harness.evidence import PlannedFaults
from tests.harness.results import Control, Effect, Oracle, Verdict, Workload
from tests.harness.sends import Send


def guard(name: str, says: str, complaints: Sequence[str]) -> Oracle:
    """Make a guard's finding: pass with `says`, or unknown with what is to complain about."""
    if not complaints:
        return Oracle(name=name, number=0, verdict=Verdict.PASS, says=says)
    return refute(name, 0, complaints[0], complaints, verdict=Verdict.UNKNOWN)


def count_workload(sends: Sequence[Send]) -> Workload:
    """Count the workload's acknowledged sends; closers and what the epilogue sent again are not part of it."""
    kinds = Counter(send.kind for send in sends)
    acknowledged = sum(kinds[kind] for kind in ("fresh", "duplicate", "late", "malformed"))
    ids = {send.id for send in sends if send.kind in ("fresh", "duplicate", "late") and not is_malformed(send)}
    return Workload(
        sent=acknowledged,
        acknowledged=acknowledged,
        unique_ids=len(ids),
        duplicates_sent=kinds["duplicate"],
        late_sent=kinds["late"],
        malformed_sent=kinds["malformed"],
    )


def workload(case: Case) -> Oracle:
    """Demand that the workload is not empty, and what was planned was sent."""
    sent, planned = count_workload(case.sends), case.manifest.workload
    complaints = [] if sent.acknowledged else ["no record was sent, so nothing can be judged"]
    topics = {send.topic for send in case.sends} - {case.manifest.settings.topic}
    complaints += [f"records were sent to topic {one}, the run's is {case.manifest.settings.topic}" for one in topics]
    places = Counter(send.coordinate for send in case.sends)
    complaints += [f"{times} records were sent to one place, {place}" for place, times in places.items() if times > 1]
    # A control sends a part of its own; only that it sent something matters.
    if case.manifest.control is None:
        names = ("sent", "duplicates_sent", "late_sent", "malformed_sent") if planned.kind == "seeded" else ("sent",)
        for name in names:
            if getattr(sent, name) != getattr(planned, name):
                complaints.append(f"{name}: {getattr(planned, name)} planned, {getattr(sent, name)} acknowledged")
    return guard("workload", f"{sent.acknowledged} sends were acknowledged, as planned", complaints)


def _untimely(case: Case) -> list[str]:
    """Describe records that were sent while there was no run, or after the epoch that read them was published."""
    events, times, epochs_of = case.events, case.sent_at, case.reference.epochs_of
    began, ended = span_of_run(events)
    published = first_publications(events)
    found: list[str] = []
    for index, (at, send) in enumerate(zip(times, case.sends, strict=True)):
        if not began <= at <= ended:
            found.append(f"id {send.id} was sent at {at}, the run was from {began + APART_MS} to {ended - APART_MS}")
        elif at > published.get(epochs_of[index], at) + APART_MS:
            found.append(f"id {send.id} was sent at {at}, after epoch {epochs_of[index]}, which read it, was published")
    return found


def demand_acknowledged(case: Case) -> Oracle:
    """Demand that every send was acknowledged: of one that was not, nobody knows whether it must be in the outputs."""
    lost = [event for event in case.events if event["event"] == "unacknowledged"]
    complaints = [f"send {event.get('id')} was not acknowledged: {event.get('error')}" for event in lost]
    return guard("acknowledged", "no send stayed without acknowledgement", complaints)


def coverage(case: Case) -> Oracle:
    """Demand that every acknowledged send lies in the ranges of exactly one epoch, which was published after it."""
    reference, sends = case.reference, case.sends
    unread = [index for index, outcome in enumerate(reference.outcomes) if outcome == Outcome.UNREAD]
    complaints = [f"no epoch read id {sends[index].id} at {source_of(sends[index])}" for index in unread]
    complaints += [f"two epochs read id {sends[index].id} at {source_of(sends[index])}" for index in reference.reread]
    complaints += _untimely(case)
    lost = reference.outcomes.count(Outcome.LOST)
    gave_up = loss.sentence(case.chain.epochs, lost)
    covered = f"the chain's ranges hold all {len(sends)} sends, each once"
    if gave_up:
        covered = f"no exact coverage: {gave_up}; the chain's ranges hold the other {len(sends) - lost}, each once"
    return guard("coverage", covered, complaints)


def epochs(case: Case) -> Oracle:
    """Demand that at least one epoch was published, and that the history tells of every epoch of the chain, whole."""
    chain = case.chain
    complaints = [] if chain.epochs else ["no epoch was published"]
    complaints += telling.find_unreported(chain, case.events)
    return guard("epochs", f"{len(chain.epochs)} epochs were declared and published", complaints)


def history(case: Case) -> Oracle:
    """Demand that the history is there to its end, so names every phase up to the one in which the run was judged."""
    return guard("history", f"{len(case.events)} events, to the end of the run", telling.cut(case.events))


def windows(case: Case) -> Oracle:
    """Demand that every window with records of the workload was closed; an open one has no count to judge."""
    settings, sends = case.manifest.settings, case.sends
    open_windows = case.reference.open_windows
    complaints: list[str] = []
    for id_, index in case.reference.accepted.items():
        time = sends[index].event_time_ms
        if sends[index].kind == "closer" or time is None:
            continue
        start = time - time % settings.window_ms
        if start in open_windows:
            complaints.append(f"window {start} was never closed, it holds id {id_}")
    closed = len(case.reference.global_counts)
    return guard("windows", f"{closed} windows were closed and counted", complaints)


def faults(case: Case, checked: Sequence[Checked]) -> Oracle:
    """Demand that at least as many faults as planned hit a running epoch and had an effect, as the history tells."""
    hits = [one for one in checked if one.fault.hit]
    complaints = [one.refuted for one in checked if one.refuted is not None]
    planned = case.manifest.faults_planned
    listed = sum(sort.count for sort in case.manifest.faults)
    if case.manifest.faults and listed != planned:
        complaints.append(f"{planned} faults were planned, and the list of them has {listed}")
    sorts = Counter((sort.kind, sort.target) for sort in case.manifest.faults)
    complaints += [f"{kind} of {target} is planned twice" for (kind, target), times in sorts.items() if times > 1]
    by_kind = Counter((one.fault.kind, one.fault.target) for one in hits)
    for sort in case.manifest.faults:
        if by_kind[sort.kind, sort.target] < sort.count:
            complaints.append(
                f"{by_kind[sort.kind, sort.target]} {sort.kind} of {sort.target} hit a running epoch, "
                f"{sort.count} were planned{_without(checked, sort)}"
            )
    if len(hits) < planned:
        complaints.append(f"{len(hits)} faults hit a running epoch, {planned} were planned{_without(checked)}")
    says = f"{len(hits)} faults hit a running epoch, {planned} were planned{_absorbed(hits)}{_without(checked)}"
    return guard("faults", says, complaints)


def _absorbed(hits: Sequence[Checked]) -> str:
    """Say how many of the hits had no other effect than that copies answered; nothing of none."""
    count = sum(one.fault.effect is Effect.ABSORBED for one in hits)
    return f", {count} of them absorbed by copies" if count else ""


def _without(checked: Sequence[Checked], sort: PlannedFaults | None = None) -> str:
    """Say how many faults, of a sort or of all, came without effect; nothing of none."""
    idle = [one.fault for one in checked if one.idle]
    count = sum(sort is None or (one.kind, one.target) == (sort.kind, sort.target) for one in idle)
    return f"; {count} more had no effect" if count else ""


def controls(found: Sequence[tuple[Control, str | None]]) -> Oracle:
    """Demand that every control got the verdict it must get; the text is why one could not be judged."""
    complaints = [
        f"control {control.name} must {control.must}, but its verdict is {control.verdict}{f': {why}' if why else ''}"
        for control, why in found
        if control.must != control.verdict
    ]
    return guard("controls", f"{len(found)} controls got the verdict they must get", complaints)
