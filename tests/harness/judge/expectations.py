"""What is expected of a run beside what is expected of any: by its pipeline, as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.harness.asked import path_of
from tests.harness.checkers import (
    aggregates,
    answers,
    certificates,
    chain,
    claim,
    decisions,
    declared_run,
    epilogue,
    in_time,
    monotone,
    multiset,
    vacuity,
)
from tests.harness.checkers.case import Case
from tests.harness.evidence import SINKS, EvidenceError, Manifest
from tests.harness.results import Oracle, Output

Check = tuple[str, int, Callable[[Any], Oracle]]
"""Name and number of an oracle, and what asks it."""
MONOTONE: Check = (monotone.NAME, monotone.NUMBER, monotone.judge)


@dataclass(frozen=True)
class Expectations:
    """How a pipeline's outputs are known, and what else is demanded of them.

    Attributes:
        sinks: compares every sink with what it must hold.
        chain: compares each epoch with the reference.
        coverage: demands that every record was read.
        oracles: further ones of a run, those before the guards.
        guards: further ones.
        claim: makes the sentence that the run showed (`claim.sentence`); None: it is the manifest's.
        seconded: whether the second judge knows such a run.
    """

    sinks: Callable[[Any], tuple[Oracle, dict[str, Output]]]
    chain: Callable[[Any], Oracle]
    coverage: Callable[[Any], Oracle]
    oracles: Callable[[Case], Sequence[Check]]
    guards: Sequence[Check] = ()
    claim: Callable[..., str] | None = None
    seconded: bool = False


def _of_user_counts(case: Case) -> list[Check]:
    return [
        (aggregates.NAME, aggregates.NUMBER, aggregates.judge),
        *_monotone(case),
        (epilogue.NAME, epilogue.NUMBER, epilogue.judge),
        *_in_time(case),
        *_certificates(case),
        *_answers(case),
    ]


def _manifest(case: Case) -> Manifest | None:
    try:
        return case.manifest
    except EvidenceError:
        return None


def _monotone(case: Case) -> list[Check]:
    """Oracle 3, for a run that had a reader during the faults."""
    manifest = _manifest(case)
    # What a reader saw is judged whatever the manifest says of it.
    seen = any(case.run.concurrent_path(sink).exists() for sink in SINKS)
    return [MONOTONE] if seen or (manifest is not None and manifest.concurrent_reader) else []


def _in_time(case: Case) -> list[Check]:
    """What lag may cost, of a run whose sender went on through outages."""
    manifest = _manifest(case)
    due = manifest is not None and manifest.settings.rate is not None
    return [(in_time.NAME, in_time.NUMBER, in_time.judge)] if due else []


def _certificates(case: Case) -> list[Check]:
    """What final results say of being complete, of a run whose records come from registered sources."""
    manifest = _manifest(case)
    # What gateways said is judged whatever the manifest says of them: oracle 2 heeds what certificates give up.
    said = case.run.statements_path.exists()
    due = said or (manifest is not None and bool(manifest.settings.gateways))
    return [(certificates.NAME, certificates.NUMBER, certificates.judge)] if due else []


def _answers(case: Case) -> list[Check]:
    """What the product said of its sources, of a run that has any."""
    manifest = _manifest(case)
    due = manifest is not None and bool(manifest.settings.gateways)
    return [(answers.NAME, answers.NUMBER, answers.judge)] if due or path_of(case.run.path).exists() else []


USER_COUNTS = Expectations(
    multiset.judge_sinks,
    chain.judge,
    vacuity.coverage,
    _of_user_counts,
    (("windows", 0, vacuity.windows), (decisions.NAME, 0, decisions.judge)),
    claim.sentence,
    seconded=True,
)
DECLARED = Expectations(
    declared_run.multiset_of,
    declared_run.chain_of,
    declared_run.coverage,
    lambda _: (MONOTONE,),
)
