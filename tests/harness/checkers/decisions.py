"""Whether a run decided what only a right catalog and a right watermark decide: else it has shown nothing of them.

Asked of seeded runs, whose stream has records for it (tests.harness.workload.bounds).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.harness.checkers.case import Case
from tests.harness.checkers.reference import Outcome, window_start
from tests.harness.checkers.vacuity import guard
from tests.harness.results import Oracle

NAME = "decisions"
LEAST = 10
"""Copies that are to be decided so many epochs after their original, and after each restart."""
FAR = 2
"""Epochs between a copy and its original: a catalog that knows the epoch before alone is found out."""
DUE = (
    (-1, Outcome.ACCEPTED, "accepted 1 ms before its window closed"),
    (-1, Outcome.DUPLICATE, "dropped as a copy 1 ms before its window closed"),
    (0, Outcome.LATE, "late by nothing"),
    (1, Outcome.LATE, "late by 1 ms"),
)
"""By how much (ms) the watermark is beyond a window's end and the allowed lateness, and what a record is then."""


def margins(case: Case) -> Iterator[tuple[int, Outcome]]:
    """Margin (ms) and outcome of every well-formed record of the workload in an epoch with a watermark."""
    settings, reference = case.manifest.settings, case.reference
    span = settings.window_ms + settings.lateness_ms
    watermarks = {epoch.epoch: epoch.watermark_ms for epoch in case.chain.epochs}
    for index, send in enumerate(case.sends):
        outcome, watermark = Outcome(reference.outcomes[index]), watermarks.get(reference.epochs_of[index])
        if watermark is None or send.event_time_ms is None or send.kind == "resent":
            continue
        if outcome is not Outcome.MALFORMED:
            yield watermark - window_start(send.event_time_ms, settings.window_ms) - span, outcome


def distances(case: Case) -> Counter[int]:
    """How many epochs lie between the workload's copies that were dropped and their originals."""
    reference, sends = case.reference, case.sends
    found: Counter[int] = Counter()
    for index, outcome in enumerate(reference.outcomes):
        send = sends[index]
        if outcome == Outcome.DUPLICATE and send.kind != "resent" and send.id is not None:
            found[reference.epochs_of[index] - reference.epochs_of[reference.accepted[send.id]]] += 1
    return found


def after_restarts(case: Case) -> dict[str, int]:
    """Copies that were dropped after each restart and before the windows were closed, by what became of checkpoints."""
    reference, steps = case.reference, case.epilogue.steps
    begins = [step.after_epoch for step in steps] + [len(case.chain.epochs)]
    found = {}
    for step, until in zip(steps, begins[1:], strict=True):
        if step.step == "restart":
            found[f"the restart with the checkpoint {step.checkpoint}"] = sum(
                outcome == Outcome.DUPLICATE and step.after_epoch < reference.epochs_of[index] <= until
                for index, outcome in enumerate(reference.outcomes)
            )
    return found


def of_other_users(case: Case) -> int:
    """Records that were dropped for their id alone: it is that of another user's record."""
    reference, sends = case.reference, case.sends
    return sum(
        outcome == Outcome.DUPLICATE and sends[reference.accepted[sends[index].id or ""]].user != sends[index].user
        for index, outcome in enumerate(reference.outcomes)
    )


def judge(case: Case) -> Oracle:
    """Demand each of them; raises EvidenceError."""
    if case.manifest.workload.kind != "seeded":
        return guard(NAME, "a file has what its author put there", [])
    there, apart = set(margins(case)), distances(case)
    # Only a sender that waits for the chain knows the watermark of the next epoch to the millisecond.
    bounded = case.manifest.settings.rate is None
    due = DUE if bounded else ()
    complaints = [f"no record was {says}" for margin, outcome, says in due if (margin, outcome) not in there]
    far = sum(count for distance, count in apart.items() if distance >= FAR)
    if far < LEAST:
        complaints.append(f"{far} copies were dropped {FAR} or more epochs after their original, due are {LEAST}")
    complaints += [
        f"{count} copies were dropped after {restart}, due are {LEAST}"
        for restart, count in after_restarts(case).items()
        if count < LEAST
    ]
    if bounded and not of_other_users(case):
        complaints.append("no record had the id of another user's")
    longest = max(apart, default=0)
    met = "all bounds were met" if bounded else "the sender went on at a rate, so no record was at a bound"
    says = f"copies were dropped up to {longest} epochs after their original; {met}"
    return guard(NAME, says, complaints)
