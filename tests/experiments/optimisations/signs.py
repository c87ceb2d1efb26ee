"""What each optimisation promises of stages and bytes, what none may change, and what a run has to have shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.bench.optimisations_table import AS_IS, COMBINER, EPOCH, FUSION, QUERY
from tests.experiments.figures import Said
from tests.experiments.figures import verdict as judged_as
from tests.experiments.optimisations.figures import Figures
from tests.experiments.optimisations.plan import ARMS
from tests.harness.results import Verdict

FUSED = {QUERY: 4.0, EPOCH: 2.0}
"""Bytes shuffled without fusion are at least so many times those with it. Found embedded: 19 and 3.6."""
COMBINED = {QUERY: (2.0, 1.5), EPOCH: (1.3, 1.02)}
"""Records, and bytes, shuffled without the combiner are at least so many times those with it. Found embedded: 5.3 and
2.9, 1.7 and 1.11: of an epoch it can combine the smaller one of two shuffles."""
PODS = 2


class Sign(Said):
    """A sentence about a variant, or about all of one part."""

    part: str
    arm: str


def signs(found: Sequence[Figures]) -> list[Sign]:
    """Every promise and every guard, with what was found."""
    return [sign for part in ARMS for sign in _of_part({one.arm: one for one in found if one.part == part})]


def verdict(found: Sequence[Figures], judged: Sequence[Sign]) -> Verdict:
    """Fail for a promise that does not hold; unknown for a guard, or where a variant is missing."""
    whole = {(one.part, one.arm) for one in found} == {(part, arm) for part, arms in ARMS.items() for arm in arms}
    return judged_as(judged, whole=whole)


def _of_part(arms: dict[str, Figures]) -> Iterator[Sign]:
    for one in arms.values():
        yield from _alone(one)
    if AS_IS not in arms:
        return
    base = arms[AS_IS]
    others = [one.arm for one in arms.values() if one.answer != base.answer]
    yield Sign(
        part=base.part,
        arm="every variant",
        says="gives the same answer",
        holds=not others,
        found=", ".join(others) or f"{len(arms)} variants, {base.windows} windows",
    )
    if FUSION in arms:
        one, least = arms[FUSION], FUSED[base.part]
        yield Sign(
            part=base.part,
            arm=FUSION,
            says="has more stages",
            holds=one.stages > base.stages,
            found=f"{one.stages} and {base.stages}",
        )
        yield _more(one, base, "bytes", least)
    if COMBINER in arms:
        records, size = COMBINED[base.part]
        yield _more(arms[COMBINER], base, "records", records)
        yield _more(arms[COMBINER], base, "bytes", size)


def _alone(one: Figures) -> Iterator[Sign]:
    yield Sign(
        part=one.part,
        arm=one.arm,
        says="answers what was sent",
        holds=not one.wrong,
        found=f"{len(one.wrong)} wrong, first {one.wrong[0]}" if one.wrong else f"{one.windows} windows",
    )
    yield Sign(
        part=one.part,
        arm=one.arm,
        says="answered for some windows",
        holds=one.windows > 0,
        found=str(one.windows),
        promise=False,
    )
    told = ", ".join(f"{pod.partition('@')[0]}: {number}" for pod, number in one.tasks.items())
    yield Sign(
        part=one.part,
        arm=one.arm,
        says=f"ran its tasks in {PODS} pods of executors and nowhere else",
        holds=len(one.tasks) >= PODS and one.elsewhere == 0,
        found=f"{told or 'none'}; elsewhere: {one.elsewhere}",
        promise=False,
    )
    yield Sign(
        part=one.part,
        arm=one.arm,
        says="moved bytes from pod to pod",
        holds=one.remote_bytes > 0,
        found=f"{one.remote_bytes:,}",
        promise=False,
    )


def _more(one: Figures, base: Figures, what: str, least: float) -> Sign:
    ours, theirs = (getattr(each, f"shuffled_{what}") for each in (one, base))
    ratio = ours / theirs if theirs else 0.0
    return Sign(
        part=base.part,
        arm=one.arm,
        says=f"shuffles at least {least:g} times the {what}",
        holds=ratio >= least,
        found=f"{ours:,} / {theirs:,} = {ratio:.2f}",
    )
