"""What both ways promise, and what a run has to have shown for that to mean something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.experiments.figures import Claim, guard, promise
from tests.experiments.two_ways.figures import Figures
from tests.experiments.two_ways.plan import Plan


def claims(found: Sequence[Figures], _: Plan) -> list[Claim]:
    """Every promise and every guard, with what was found."""
    return [claim for one in found for claim in (*_promises(one), *_guards(one))]


def _promises(one: Figures) -> Iterator[Claim]:
    if not one.catalog:
        return
    wrong = f"{one.wrong:,} of {one.due:,} are wrong"
    yield promise(one.name, "has no wrong record in its output", one.wrong == 0, wrong)
    says = "writes a record that it writes again as before"
    yield promise(one.name, says, one.differing == 0, f"{one.differing:,} otherwise")
    yield promise(one.name, "gives out nothing that was not sent", one.phantoms == 0, f"{one.phantoms:,} phantoms")
    if one.broke_off is None:
        yield promise(one.name, "loses nothing", one.lost == 0, f"{one.lost:,} lost")


def _guards(one: Figures) -> Iterator[Claim]:
    yield guard(one.name, "records were sent", one.due > 0, f"{one.due:,}")
    for level in one.levels:
        says = f"every one of {level.kills} kills hit an operator at work"
        found = f"{level.hit} of {level.planned}, both parts together"
        yield guard(one.name, says, level.hit == level.planned, found)
    if not one.catalog:
        says = "without its catalog the same kills make the output wrong"
        yield guard(one.name, says, one.wrong > 0, f"{one.wrong:,} of {one.due:,} wrong")
