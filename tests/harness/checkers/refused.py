"""Whether the pipeline stopped for good: drivers that nobody struck ended, as what they decide contradicts a sink."""

from __future__ import annotations

from tests.harness.checkers import faults
from tests.harness.checkers.case import Case, refute
from tests.harness.checkers.endings import Endings
from tests.harness.evidence import EvidenceError
from tests.harness.refusals import ENOUGH, refuses
from tests.harness.results import Fault, Oracle, Verdict

NAME, NUMBER = "goes on", 0
REPAIRED = "repaired"
"""State of a driver after which an operator repaired the epoch that it was refused with."""


def refusals(case: Case) -> list[str]:
    """Last words of drivers that were refused, in their order, since an epoch was repaired.

    Whoever was killed was not refused for good; that one was is not believed of a line alone.
    """
    told = [one for one in case.events if one["event"] == "driver"]
    ends = Endings(case.events, _find_confirmed(case) if any(one.get("state") == "killed" for one in told) else ())
    found: list[str] = []
    for one in told:
        if one.get("state") == REPAIRED:
            found = []
        elif one.get("state") == "ended" and refuses(str(one.get("says"))) and not ends.is_killed(one.get("pid")):
            found.append(str(one["says"]))
    return found


def _find_confirmed(case: Case) -> list[Fault]:
    """Return the faults that hit; none where what is told of them cannot be read, so that it excuses nobody."""
    try:
        return [one.fault for one in faults.check(case.events)]
    except EvidenceError:
        return []


def judge(case: Case) -> list[Oracle]:
    """Fail where more than one driver was refused: readers see what no repeat of the epoch comes to.

    One that was repaired since goes on, and the chain has to have the repair. A run in which none was refused, or whose
    history cannot be read, says nothing of it, unless it had to repair an epoch.
    """
    try:
        found = refusals(case)
        told = any(one["event"] == "driver" and one.get("state") == REPAIRED for one in case.events)
    except EvidenceError:
        return []
    if len(found) < ENOUGH and (told or _had_to_repair(case)):
        return [_judge_repaired(case, told)]
    return [_judge(found)] if found else []


def _had_to_repair(case: Case) -> bool:
    try:
        return case.manifest.settings.repair
    except EvidenceError:
        return False


def _judge_repaired(case: Case, told: bool) -> Oracle:
    try:
        repairs = [record for record in case.chain.epochs if record.repairs is not None]
    except EvidenceError:
        repairs = []
    if not (told and repairs):
        lacks = "the chain has no epoch that repairs another" if told else "no epoch was repaired"
        return Oracle(name=NAME, number=NUMBER, verdict=Verdict.UNKNOWN, says=f"the way out was not tried: {lacks}")
    says = "; ".join(
        f"epoch {record.repairs} could not be repeated: an operator had it finished as it was shown, and epoch "
        f"{record.epoch} took the other {record.counts.in_} records"
        for record in repairs
    )
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=says)


def _judge(found: list[str]) -> Oracle:
    if len(found) < ENOUGH:
        return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says="no pipeline stopped for good")
    says = f"the pipeline stopped for good: {len(found)} drivers were refused"
    return refute(NAME, NUMBER, says, found)
