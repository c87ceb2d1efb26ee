"""What speaks against alerts that were raised: a function of what was seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tests.harness.alerts.results import Asked, Played, Quiet, Raised
from tests.harness.results import Verdict

LOOK_S = 5.0
"""How often Prometheus is asked what fires: so much later than it fired an alert may be seen."""


def find_wrong(one: Raised) -> list[str]:
    """Return what is wrong with an alert that a fault was to raise."""
    if one.fired_s is None:
        return [f"it did not fire, stated are {one.stated_s:.0f} s"]
    found = []
    if one.fired_s > one.stated_s + LOOK_S:
        found.append(f"it fired after {one.fired_s:.0f} s, stated are {one.stated_s:.0f} s")
    for name, value in one.due.items():
        if name not in one.labels or value not in (None, one.labels[name]):
            found.append(f"its label {name} is {one.labels.get(name)!r}, not {value!r}")
    if not one.received:
        found.append("Alertmanager did not get it")
    if one.resolved_s is None:
        found.append("it fired on after the fault was healed")
    return found


def find_unexpected(played: Played) -> list[str]:
    """Return the alerts that fired during a fault which does not raise them."""
    known = {one.alert for one in played.raised}.union(played.may)
    return [f"{name} {labels}" for name, labels in played.others.items() if name not in known]


def find_all_wrong(played: Iterable[Played]) -> dict[str, list[str]]:
    """Return what is wrong with each alert of faults that were played to their end."""
    return {one.alert: wrong for each in played if not each.lacks for one in each.raised if (wrong := find_wrong(one))}


def list_refuting(quiet: Iterable[Quiet], queries: Iterable[Asked], played: Collection[Played]) -> Iterator[str]:
    """Yield what refutes the claim."""
    for time in quiet:
        yield from (f"{one} fired within {time.seconds:.0f} s in which nothing was done" for one in time.alerts)
    yield from (f"{one.by}: {one.query}: {one.why}" for one in queries if not one.holds)
    for alert, wrong in find_all_wrong(played).items():
        yield from (f"{alert}: {what}" for what in wrong)
    for each in played:
        yield from (f"{each.fault}: {one} fired, which it does not raise" for one in find_unexpected(each))


def list_unknown(played: Collection[Played], alerts: Iterable[str], not_raised: Collection[str]) -> Iterator[str]:
    """Yield what was not seen: faults that could not be played, and alerts of which none was."""
    yield from (f"{each.fault} was not played: {each.lacks}" for each in played if each.lacks)
    tried = {one.alert for each in played for one in each.raised}
    yield from (f"{name} was not tried" for name in alerts if name not in tried and name not in not_raised)


def conclude(refuting: Collection[str], unknown: Collection[str]) -> Verdict:
    """Return the verdict."""
    if refuting:
        return Verdict.FAIL
    return Verdict.UNKNOWN if unknown else Verdict.PASS
