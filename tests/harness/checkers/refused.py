"""Whether the pipeline stopped for good: drivers that nobody struck ended, as what they decide contradicts a sink."""

from __future__ import annotations

from tests.harness.checkers.case import FIRST, Case, clipped
from tests.harness.evidence import EvidenceError
from tests.harness.refusals import ENOUGH, refuses
from tests.harness.results import Oracle, Verdict

NAME, NUMBER = "goes on", 0


def refusals(case: Case) -> list[str]:
    """Last words of drivers that were refused, in their order."""
    told = [one for one in case.events if one["event"] == "driver" and one.get("state") == "ended"]
    struck = {one.get("pid") for one in case.events if one["event"] == "driver" and one.get("state") == "killed"}
    return [str(one["says"]) for one in told if one["pid"] not in struck and refuses(str(one.get("says")))]


def judge(case: Case) -> list[Oracle]:
    """Fail where more than one driver was refused: readers see what no repeat of the epoch comes to.

    A run in which none was, or whose history cannot be read, says nothing of it.
    """
    try:
        found = refusals(case)
    except EvidenceError:
        found = []
    return [_judged(found)] if found else []


def _judged(found: list[str]) -> Oracle:
    if len(found) < ENOUGH:
        return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says="no pipeline stopped for good")
    says = f"the pipeline stopped for good: {len(found)} drivers were refused"
    return Oracle(
        name=NAME, number=NUMBER, verdict=Verdict.FAIL, says=says, evidence=clipped(found[:FIRST], len(found))
    )
