"""What both ways promise, and what a run has to have shown for that to mean something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.experiments.figures import Said
from tests.experiments.figures import verdict as judged_as
from tests.experiments.two_ways.figures import Figures
from tests.experiments.two_ways.plan import Plan
from tests.harness.results import Verdict


class Sign(Said):
    """A sentence about one arm."""

    arm: str


def signs(found: Sequence[Figures]) -> list[Sign]:
    """Every promise and every guard, with what was found."""
    return [sign for one in found for sign in (*_promises(one), *_guards(one))]


def verdict(found: Sequence[Figures], judged: Sequence[Sign], plan: Plan) -> Verdict:
    """Unknown, also, for an arm that was not played to its end."""
    whole = {one.name for one in found if one.broke_off is None} == {arm.name for arm in plan.arms}
    return judged_as(judged, whole=whole)


def _promises(one: Figures) -> Iterator[Sign]:
    if not one.catalog:
        return
    yield Sign(
        arm=one.name,
        says="has no wrong record in its output",
        found=f"{one.wrong:,} of {one.due:,} are wrong",
        holds=one.wrong == 0,
    )
    yield Sign(
        arm=one.name,
        says="writes a record that it writes again as before",
        found=f"{one.differing:,} otherwise",
        holds=one.differing == 0,
    )
    yield Sign(
        arm=one.name,
        says="gives out nothing that was not sent",
        found=f"{one.phantoms:,} phantoms",
        holds=one.phantoms == 0,
    )
    if one.broke_off is None:
        yield Sign(arm=one.name, says="loses nothing", found=f"{one.lost:,} lost", holds=one.lost == 0)


def _guards(one: Figures) -> Iterator[Sign]:
    def guard(says: str, holds: bool, found: str) -> Sign:
        return Sign(arm=one.name, says=says, holds=holds, found=found, promise=False)

    yield guard("records were sent", one.due > 0, f"{one.due:,}")
    for level in one.levels:
        yield guard(
            f"every one of {level.kills} kills hit an operator at work",
            level.hit == level.planned,
            f"{level.hit} of {level.planned}, both parts together",
        )
    if not one.catalog:
        yield guard("without its catalog the same kills make the output wrong", one.wrong > 0, f"{one.wrong:,} wrong")
