"""Oracle 4: nothing is left open: no open transaction, and the last stable offset is the high watermark."""

from __future__ import annotations

from tests.harness.checkers.case import FIRST, Case, clipped
from tests.harness.evidence import EvidenceError, Quiet
from tests.harness.results import Oracle, Verdict

NAME, NUMBER = "quiet", 4


def unquiet(quiet: Quiet) -> list[str]:
    """Describe every open transaction and every partition whose end a committed reader cannot reach."""
    found = [f"open transaction {transaction}" for transaction in quiet.open_transactions]
    for part in quiet.partitions:
        if part.last_stable_offset != part.high_watermark:
            found.append(
                f"{part.topic}/{part.partition}: last stable offset {part.last_stable_offset}, "
                f"high watermark {part.high_watermark}"
            )
    return found


def judge(case: Case) -> Oracle:
    """Oracle 4; raises EvidenceError, also when no partition was looked at."""
    quiet = case.quiet
    if not quiet.partitions:
        raise EvidenceError("no output partition was looked at", case.run.quiet_path, "collect the evidence again")
    found = unquiet(quiet)
    if found:
        return Oracle(
            name=NAME,
            number=NUMBER,
            verdict=Verdict.FAIL,
            says=f"{len(found)} transactions or partitions are still open",
            evidence=clipped(found[:FIRST], len(found)),
        )
    says = f"no open transaction; {len(quiet.partitions)} partitions are stable to their end"
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=says)
