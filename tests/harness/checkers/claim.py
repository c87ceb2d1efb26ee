"""What a run claims: the least that it has to show, and the sentence that follows from what it showed.

Both are here and not in the manifest: what a manifest leaves out would not be asked for otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.harness.checkers.case import Case
from tests.harness.checkers.faults import Checked
from tests.harness.checkers.recovery import role_of
from tests.harness.checkers.vacuity import guard
from tests.harness.controls.names import QUICK
from tests.harness.evidence import Manifest
from tests.harness.results import CAMPAIGNS, OWN_PIPELINE, Control, Effect, Fault, Oracle, Output, Verdict

NAME = "minimum"
BASELINE = "/baseline"
SORTS = ("fresh", "duplicate", "late", "malformed")
"""Of records, each of which a seeded stream has."""


@dataclass(frozen=True)
class Minimum:
    """The least that a run has to show for what it claims.

    Attributes:
        faults: that hit, with effect.
        controls: by name, each of which failed.
        sorts: of records that were sent.
    """

    faults: int
    controls: tuple[str, ...]
    sorts: tuple[str, ...]


def minimum_of(manifest: Manifest) -> Minimum:
    """Return what a run needs.

    A part of a campaign leaves its controls to another part, and claims none; for a declared pipeline there are none.
    Where the pipeline was changed, the changes are what the claim needs (`changes`).
    """
    sorts = SORTS if manifest.workload.kind == "seeded" else ("fresh",)
    if manifest.run.endswith(BASELINE):
        return Minimum(0, (), sorts)
    if manifest.changes:
        return Minimum(0, tuple(one.name for one in QUICK), sorts)
    part = manifest.settings.campaign in (*CAMPAIGNS, OWN_PIPELINE)
    return Minimum(1, () if part else tuple(one.name for one in QUICK), sorts)


def minimum(case: Case, checked: Iterable[Checked], controls: Iterable[Control]) -> Oracle:
    """Demand the least that the run's claim needs, whatever its manifest says was planned."""
    least, hits = minimum_of(case.manifest), sum(one.fault.hit for one in checked)
    complaints = [f"the claim needs a fault that hit, and {hits} did"] if hits < least.faults else []
    failed = {one.name for one in controls if one.must == "fail" and one.verdict is Verdict.FAIL}
    complaints += [
        f"the claim needs control {name}, which did not fail" for name in least.controls if name not in failed
    ]
    complaints += [
        f"the claim needs a reader during the run, and there is none of {sink}"
        for sink in case.watched
        if not case.run.concurrent_path(sink).exists()
    ]
    sent = Counter(send.kind for send in case.sends)
    complaints += [f"the claim needs {sort} records, and none was sent" for sort in least.sorts if not sent[sort]]
    says = f"{hits} faults, {len(failed)} failed controls, a reader, {len(least.sorts)} sorts of records"
    return guard(NAME, f"the claim has what it needs: {says}", complaints)


def but(gave_up: str) -> str:
    """Take back from a claim what the chain gave up (`loss.sentence`); empty where nothing was."""
    return gave_up and f" But not of every record: {gave_up}."


def _count(faults: Iterable[Fault]) -> str:
    struck = Counter(role_of(fault.target) for fault in faults)
    return ", ".join(f"{role} {count}" for role, count in sorted(struck.items()))


def sentence(
    outputs: Mapping[str, Output],
    faults: Iterable[Fault],
    controls: Sequence[Control],
    oracles: Iterable[Oracle],
    gave_up: str = "",
) -> str:
    """Say what a run claims, by what it showed: who was struck, which sinks were judged, who looked, what failed.

    `gave_up` is what the chain gave up of its input, in words; empty where it gave up nothing.
    """
    hits = [fault for fault in faults if fault.hit]
    absorbed = _count(fault for fault in hits if fault.effect is Effect.ABSORBED)
    struck = _count(fault for fault in hits if fault.effect is not Effect.ABSORBED)
    shown = [f"{how} ({who})" for how, who in (("with effect", struck), ("absorbed by copies", absorbed)) if who]
    whichever = f"whatever was struck {' or '.join(shown)}" if shown else "nothing was struck"
    judged = ", ".join(outputs) or "no sink"
    read = any(one.name == "monotone" for one in oracles)
    failed = [one.name for one in controls if one.must == "fail" and one.verdict is Verdict.FAIL]
    return (
        f"Every event in time is counted exactly once per user and minute, {whichever}. Judged: {judged}; "
        f"{'a reader saw none of it change' if read else 'no reader looked meanwhile'}; "
        f"{f'{len(failed)} controls failed as they must' if failed else 'no control was played'}.{but(gave_up)}"
    )
