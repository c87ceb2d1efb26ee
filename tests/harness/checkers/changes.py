"""Whether a pipeline went on through every change that was made to it: as planned, with effect, within its bound.

What a change came to is reckoned here anew, from epochs and drivers of the history and the chain: who makes changes
says when one began and was seen, and no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.harness.checkers.case import Case, refute
from tests.harness.checkers.provenance import digest_of
from tests.harness.checkers.vacuity import guard
from tests.harness.evidence import EpochRecord, EvidenceError
from tests.harness.results import Change, Oracle

NAME = "changes"
EVENT = "change"
Event = Mapping[str, Any]


def read(events: Sequence[Event]) -> list[Change]:
    """Return what each change came to, in their order.

    Raises:
        EvidenceError: one is told without what every change has.
    """
    published = sorted(one["t"] for one in events if one["event"] == "epoch" and one.get("state") == "published")
    return [_read(one, published) for one in events if one["event"] == EVENT]


def _read(told: Event, published: Sequence[int]) -> Change:
    try:
        return Change(
            name=told["name"],
            says=told["says"],
            up_s=told["up_s"],
            away_s=away_s(published, told["began"], told["seen"]),
            bound_s=told["bound_s"],
            lacks=told["lacks"],
            failed=told["failed"],
            evidence=told["evidence"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"a change is told without all it needs ({error})", "history.jsonl", "run again") from error


def away_s(published: Sequence[int], began: int, seen: int | None) -> float | None:
    """Return the longest time without an epoch, in s: from the last before a change to the first once it was seen.

    Args:
        published: when epochs were, in ms, in order.
        began: when the change did.
        seen: when the new value was; None: it was not.

    Returns:
        None where the change was not seen, or no epoch followed.
    """
    if seen is None:
        return None
    after = next((at for at in published if at >= seen), None)
    if after is None:
        return None
    # Before the first epoch there is none to reckon from.
    before = max((at for at in published if at <= began), default=began)
    times = [before, *(at for at in published if began < at < after), after]
    return round(max(later - earlier for earlier, later in pairwise(times)) / 1000, 3)


def judge(case: Case) -> Oracle:
    """Refute a change that failed or held the pipeline up for too long; unknown is one that showed nothing."""
    found = read(case.events)
    refuted = [line for one in found for line in _find_refuting(one)]
    if refuted:
        return refute(NAME, 0, refuted[0], refuted)
    planned = {one.name: one.count for one in case.manifest.changes}
    came = Counter(one.name for one in found)
    complaints = [
        f"{came[name]} changes {name} were made, {planned.get(name, 0)} were planned"
        for name in {**planned, **came}
        if came[name] != planned.get(name, 0)
    ]
    complaints += [f"{one.label}: {one.lacks}" for one in found if one.lacks]
    complaints += _find_unconfirmed(case, found)
    longest = max((one.away_s for one in found if one.away_s is not None), default=0.0)
    return guard(
        NAME, f"{len(found)} changes took effect; the longest time without an epoch was {longest} s", complaints
    )


def _find_refuting(one: Change) -> list[str]:
    if one.failed:
        return [f"{one.label}: {one.failed}"]
    if one.lacks:
        return []
    if one.away_s is None:
        return [f"{one.label}: no epoch was published after it"]
    if one.away_s > one.bound_s:
        return [f"{one.label}: {one.away_s:.0f} s without an epoch, {one.bound_s:.0f} s are allowed"]
    return []


def _find_unconfirmed(case: Case, found: Sequence[Change]) -> list[str]:
    """Describe effects that chain and drivers do not confirm, where they can: another version, other settings."""
    told = [one for one in case.events if one["event"] == EVENT]
    complaints: list[str] = []
    for change, event in zip(found, told, strict=True):
        if change.lacks:
            continue
        if (wheel := change.evidence.get("wheel_digest")) is not None and wheel not in _wheels(
            case.chain.epochs, case.events, event
        ):
            complaints.append(f"{change.label}: no epoch that was published after it is of wheel {wheel[:12]}")
        if (name := change.evidence.get("settings")) is not None and digest_of(case.run.path / name) not in {
            one.get("settings")
            for one in case.events
            if (one["event"], one.get("state")) == ("driver", "started") and event["began"] <= one["t"] <= event["seen"]
        }:
            complaints.append(f"{change.label}: no driver started with {name} before it was seen")
    return complaints


def _wheels(epochs: Sequence[EpochRecord], events: Sequence[Event], change: Event) -> set[str | None]:
    """Return the versions of the first epoch that was published once a change was seen."""
    after = [
        one["epoch"]
        for one in events
        if one["event"] == "epoch" and one.get("state") == "published" and one["t"] >= change["seen"]
    ]
    return {one.wheel_digest for one in epochs if one.epoch in after[:1]}


def find_wheels(events: Sequence[Event]) -> set[str]:
    """Return the versions that changes brought."""
    told = (one.get("evidence") for one in events if one["event"] == EVENT)
    return {str(one["wheel_digest"]) for one in told if isinstance(one, Mapping) and "wheel_digest" in one}


def sentence(found: Sequence[Change]) -> str:
    """Say which changes took effect and were gone on after; empty where none was made."""
    came = Counter(one.name for one in found if not (one.lacks or one.failed) and one.away_s is not None)
    if not came:
        return ""
    told = ", ".join(f"{name} {count}" for name, count in came.items())
    return f" Changed while it ran, with effect: {told}."
