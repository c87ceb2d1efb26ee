"""Recovery by sort of fault, and what N faults without a violation bound: numbers, no verdict."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.harness.results import Bound, Fault, Recovery, Spread, Struck, Verdict

ALL_ROLES = "all"
BOUND_SAYS = (
    "The bound is the rule of three, 3/N: if every such fault broke an output with one probability, independently of "
    "the others, then with a higher one than this, N faults would all have gone well in fewer than 5 of 100 such "
    "campaigns. It says nothing of faults, places, loads or hardware other than those of this plan, and none of what "
    "only shows after longer than it ran."
)
_ROLES = {
    "every executor": "executor",
    "executor JVM": "executor",
    "neighbours": "executor",
    "operator at submission": "operator",
    "operator, then driver": "operator",
    "driver, then operator": "operator",
}


def role_of(target: str) -> str:
    """Return the role that a fault's target plays; several that are struck at once, or in a row, count once."""
    return _ROLES.get(target, target)


def spread(times: Iterable[float | None]) -> Spread | None:
    """Summarise the times that are known; None of none."""
    known = sorted(time for time in times if time is not None)
    if not known:
        return None
    nearest = known[math.ceil(0.99 * len(known)) - 1]
    return Spread(n=len(known), median=round(statistics.median(known), 3), p99=nearest, max=known[-1])


def by_sort(faults: Iterable[Fault]) -> tuple[Recovery, ...]:
    """Summarise faults by target and kind, in this order."""
    sorts: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        sorts.setdefault((fault.target, fault.kind), []).append(fault)
    found = []
    for (target, kind), injected in sorted(sorts.items()):
        hits = [fault for fault in injected if fault.hit]
        found.append(
            Recovery(
                kind=kind,
                target=target,
                injected=len(injected),
                hits=len(hits),
                replaced_s=spread(fault.replaced_s for fault in hits),
                recovered_s=spread(fault.recovered_s for fault in hits),
                caught_up_s=spread(fault.caught_up_s for fault in hits),
            )
        )
    return tuple(found)


def by_step(faults: Iterable[Fault]) -> tuple[Struck, ...]:
    """Count the faults that hit by target, kind and step, in this order."""
    counts = Counter((fault.target, fault.kind, fault.phase or "") for fault in faults if fault.hit)
    return tuple(
        Struck(kind=kind, target=target, phase=phase, hits=hits)
        for (target, kind, phase), hits in sorted(counts.items())
    )


def upper_95(hits: int) -> float | None:
    """Return the rule of three, 3/N, at most 1; None without a fault."""
    return round(min(1.0, 3 / hits), 6) if hits else None


def bounds(faults: Sequence[Fault], verdict: Verdict) -> tuple[Bound, ...]:
    """Bound the probability of a violation per fault that hit, by role and altogether; none when no fault hit.

    Only a run that passed shows that N faults did no harm: of another the bounds are None.
    """
    counts: dict[str, int] = {}
    for fault in faults:
        if fault.hit:
            counts[role_of(fault.target)] = counts.get(role_of(fault.target), 0) + 1
    if not counts:
        return ()
    roles = (*sorted(counts.items()), (ALL_ROLES, sum(counts.values())))
    shown = verdict is Verdict.PASS
    return tuple(Bound(role=role, hits=hits, upper_95=upper_95(hits) if shown else None) for role, hits in roles)
