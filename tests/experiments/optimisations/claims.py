"""What each optimisation promises of stages and bytes, what none may change, and what a run has to have shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.bench.optimisations_table import AS_IS, COMBINER, EPOCH, FUSION, QUERY
from tests.experiments.figures import Claim, guard, promise
from tests.experiments.optimisations.figures import Figures
from tests.experiments.optimisations.plan import ARMS, Plan

FUSED = {QUERY: 4.0, EPOCH: 2.0}
"""Bytes shuffled without fusion are at least so many times those with it. Found embedded: 19 and 3.6."""
COMBINED = {QUERY: (2.0, 1.5), EPOCH: (1.3, 1.02)}
"""Records, and bytes, shuffled without the combiner are at least so many times those with it. Found embedded: 5.3 and
2.9, 1.7 and 1.11: of an epoch it can combine the smaller one of two shuffles."""
PODS = 2


def claims(found: Sequence[Figures], _: Plan) -> list[Claim]:
    """Every promise and every guard, with what was found."""
    return [claim for part in ARMS for claim in _of_part({one.arm: one for one in found if one.part == part})]


def _of_part(arms: dict[str, Figures]) -> Iterator[Claim]:
    for one in arms.values():
        yield from _alone(one)
    if AS_IS not in arms:
        return
    base = arms[AS_IS]
    others = [one.arm for one in arms.values() if one.answer != base.answer]
    told = ", ".join(others) or f"{len(arms)} variants, {base.windows} windows"
    yield promise(f"{base.part}, every variant", "gives the same answer", not others, told)
    if FUSION in arms:
        one = arms[FUSION]
        yield promise(_name(one), "has more stages", one.stages > base.stages, f"{one.stages} and {base.stages}")
        yield _more(one, base, "bytes", FUSED[base.part])
    if COMBINER in arms:
        records, size = COMBINED[base.part]
        yield _more(arms[COMBINER], base, "records", records)
        yield _more(arms[COMBINER], base, "bytes", size)


def _alone(one: Figures) -> Iterator[Claim]:
    name, windows = _name(one), f"{one.windows} windows"
    wrong = f"{len(one.wrong)} wrong, first {one.wrong[0]}" if one.wrong else windows
    yield promise(name, "answers what was sent", not one.wrong, wrong)
    yield guard(name, "it answered for some windows", one.windows > 0, windows)
    told = ", ".join(f"{pod.partition('@')[0]}: {number}" for pod, number in one.tasks.items())
    says = f"it ran its tasks in {PODS} pods of executors and nowhere else"
    where = f"{told or 'none'}; elsewhere: {one.elsewhere}"
    yield guard(name, says, len(one.tasks) >= PODS and one.elsewhere == 0, where)
    yield guard(name, "it moved bytes from pod to pod", one.remote_bytes > 0, f"{one.remote_bytes:,}")


def _more(one: Figures, base: Figures, what: str, least: float) -> Claim:
    ours, theirs = (getattr(each, f"shuffled_{what}") for each in (one, base))
    ratio = ours / theirs if theirs else 0.0
    found = f"{ours:,} / {theirs:,} = {ratio:.2f}"
    return promise(_name(one), f"shuffles at least {least:g} times the {what}", ratio >= least, found)


def _name(one: Figures) -> str:
    return f"{one.part}, {one.arm}"
