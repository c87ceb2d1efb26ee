"""Oracle 2: counts recomputed from the ground truth, per key and window.

Twice: from the reference's accepted sends, and in a `seeded` workload also without the chain, from what the
generator says every record is. The two must agree, so that a wrong chain cannot explain wrong counts away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from tests.harness.checkers.case import Case, refute, source_of
from tests.harness.checkers.certificates import let_go
from tests.harness.checkers.expectations import user_window_of, window_of
from tests.harness.checkers.reference import Outcome, Reference, is_malformed, window_start
from tests.harness.evidence import EvidenceError, Settings
from tests.harness.results import Oracle, Verdict
from tests.harness.sends import Send

NAME, NUMBER = "aggregates", 2
_ALLOWED = {
    "fresh": {Outcome.ACCEPTED, Outcome.DUPLICATE},
    "closer": {Outcome.ACCEPTED, Outcome.DUPLICATE},
    "duplicate": {Outcome.ACCEPTED, Outcome.DUPLICATE, Outcome.LATE},
    "late": {Outcome.LATE},
    "malformed": {Outcome.MALFORMED},
    "resent": {Outcome.DUPLICATE, Outcome.LATE, Outcome.MALFORMED},
}


def count_closed(accepted: Iterable[Send], watermark_ms: int | None, settings: Settings) -> Counter[tuple[str, int]]:
    """Count accepted sends per (user, window), of the windows that the watermark closes."""
    counts: Counter[tuple[str, int]] = Counter()
    for send in accepted:
        if send.user is None or send.event_time_ms is None:
            raise ValueError(f"well-formed send without user or time at {source_of(send)}")
        counts[send.user, window_start(send.event_time_ms, settings.window_ms)] += 1
    if watermark_ms is None:
        return Counter()
    span = settings.window_ms + settings.lateness_ms
    return Counter({key: n for key, n in counts.items() if key[1] + span <= watermark_ms})


def by_window(counts: Mapping[tuple[str, int], int]) -> Counter[int]:
    """Add the counts of all users, per window."""
    total: Counter[int] = Counter()
    for (_, start), count in counts.items():
        total[start] += count
    return total


def generator_accepts(sends: Iterable[Send]) -> dict[str, Send]:
    """Return id -> send of what the generator meant to be accepted: fresh records and closers, once each."""
    accepted: dict[str, Send] = {}
    for send in sends:
        if send.kind in {"fresh", "closer"} and send.id is not None:
            accepted.setdefault(send.id, send)
    return accepted


def differences(what: str, observed: Mapping[Any, Any], due: Mapping[Any, int]) -> list[str]:
    """Describe every key whose count is not the one due."""
    return [
        f"{what}: {key} is {observed.get(key, 'missing')}, due is {due.get(key, 'no row')}"
        for key in (*due, *(key for key in observed if key not in due))
        if observed.get(key) != due.get(key)
    ]


def find_misclassified(sends: list[Send], reference: Reference, gone: Container[int] = ()) -> list[str]:
    """Describe sends whose outcome is none that their kind allows, and ids accepted against the generator's plan.

    `gone`: indexes of those whose gateway was not waited for, as the certificate of their window says.
    """
    found: list[str] = []
    for index, send in enumerate(sends):
        outcome = Outcome(reference.outcomes[index])
        if outcome is Outcome.LOST or index in gone:
            continue
        if outcome not in _ALLOWED[send.kind] or (outcome is Outcome.MALFORMED) != is_malformed(send):
            found.append(f"{send.kind} id {send.id} from {source_of(send)} is {outcome.name.lower()} by the reference")
    planned = generator_accepts(_there(sends, reference, gone))
    found += [f"id {id_} was planned in time and is not accepted" for id_ in planned if id_ not in reference.accepted]
    found += [f"id {id_} was accepted and not planned so" for id_ in reference.accepted if id_ not in planned]
    return found


def _there(sends: list[Send], reference: Reference, gone: Container[int]) -> list[Send]:
    """Sends that the topic held until an epoch read them, as far as the chain says, and that were waited for."""
    return [send for index, send in enumerate(sends) if reference.outcomes[index] != Outcome.LOST and index not in gone]


def _count(rows: Iterator[dict[str, Any]], key_of: Any) -> dict[Any, Any]:
    """Return key -> count; further rows of a key are added up, so that a double shows as a wrong count."""
    counts: dict[Any, Any] = {}
    for row in rows:
        key, count = key_of(row), row.get("count")
        counts[key] = counts[key] + count if key in counts and type(count) is type(counts[key]) is int else count
    return counts


def judge(case: Case) -> Oracle:
    """Oracle 2; raises EvidenceError."""
    sends, reference, settings = case.sends, case.reference, case.manifest.settings
    users = _count(case.rows("user_counts"), user_window_of)
    windows = _count(case.rows("global_counts"), window_of)
    closed_at = max((epoch.watermark_ms for epoch in case.chain.epochs if epoch.watermark_ms is not None), default=None)
    due = count_closed((sends[index] for index in reference.accepted.values()), closed_at, settings)
    groups = [differences("user_counts", users, due), differences("global_counts", windows, by_window(due))]
    how = "from the ground truth"
    if case.manifest.workload.kind == "seeded":
        how += ", with and without the chain"
        closers = [send.event_time_ms for send in sends if send.kind == "closer" and send.event_time_ms is not None]
        if not closers:
            raise EvidenceError("no closer was sent", case.run.sent_path, "let the run end, it closes the windows")
        # Of what was let go, oracle *certificates* judges whether it had to be.
        gone = let_go(case)
        planned = count_closed(generator_accepts(_there(sends, reference, gone)).values(), max(closers), settings)
        groups.append(differences("user_counts without the chain", users, planned))
        groups.append(differences("global_counts without the chain", windows, by_window(planned)))
        groups.append(find_misclassified(sends, reference, gone))
    found = sum(len(group) for group in groups)
    if found:
        says = f"{found} counts or classifications differ from what was recomputed {how}"
        return refute(NAME, NUMBER, says, *groups)
    says = f"{len(users)} counts of users and {len(windows)} of windows equal those recomputed {how}"
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=says)
