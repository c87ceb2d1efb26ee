"""What became of the records of a user's file, by reason: each is one of these, and they add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.harness.checkers.case import Case
from tests.harness.checkers.reference import Outcome
from tests.harness.run_directory import RunDirectory

WORDS = {
    Outcome.ACCEPTED: "accepted",
    Outcome.DUPLICATE: "copies of one that is accepted",
    Outcome.LATE: "late",
    Outcome.MALFORMED: "refused",
    Outcome.LOST: "lost, and given up by an operator",
    Outcome.UNREAD: "read by no epoch",
}


def accounting(run: Path) -> Iterator[str]:
    """Yield a line for each outcome of the records of a file; of the refused ones by reason, as dead letters tell it.

    Records that the run made itself, and sent again, are not counted.

    Raises:
        EvidenceError: the run's evidence cannot be read.

    """
    case = Case(RunDirectory(run))
    theirs = [at for at, send in enumerate(case.sends) if send.kind not in ("closer", "resent")]
    outcomes = Counter(Outcome(case.reference.outcomes[at]) for at in theirs)
    reasons = {tuple(row["source"]): str(row["reason"]) for row in case.rows("dead_letter") if row.get("source")}
    refused = [at for at in theirs if case.reference.outcomes[at] == Outcome.MALFORMED]
    by_reason = Counter(reasons.get(case.sends[at].coordinate, "told by no dead letter") for at in refused)
    yield f"{len(theirs):,} records of the file:"
    for outcome, number in sorted(outcomes.items()):
        yield f"  {number:,} {WORDS[outcome]}"
        if outcome is Outcome.MALFORMED:
            yield from (f"    {count:,} {reason}" for reason, count in by_reason.most_common())
