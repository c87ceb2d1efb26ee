"""The plan of a campaign for a pipeline, and how people read it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.harness.conditions import Conditions
from tests.harness.definition.packaged import USER_COUNTS, AnyPipeline
from tests.harness.mixture import name_of, plan
from tests.harness.schedule import PlannedFault, Strike


def planned_faults(
    seed: int,
    strikes: Sequence[Strike],
    conditions: Conditions,
    pipeline: AnyPipeline = USER_COUNTS,
    *,
    early: bool = False,
) -> list[PlannedFault]:
    """The plan of a campaign, on either stack.

    Args:
        seed: draws.
        strikes: what is done.
        conditions: lengths of faults.
        pipeline: what is struck.
        early: only at steps that a strike from afar comes in time for.

    Raises:
        NoFaultError: a strike needs a step that the pipeline does not have.
    """
    return plan(
        seed,
        strikes,
        pipeline.shards,
        **pipeline.steps(early=early),
        lengths_s=conditions.stall_s,
        cuts_s=conditions.cut_s,
        lags_s=conditions.lag_s,
    )


def describe(planned: Sequence[PlannedFault]) -> str:
    """A plan for people, a line a fault."""
    lines = []
    for number, one in enumerate(planned, 1):
        where = "" if one.step == "declared" else f", shard {one.shard}"
        where += f", {one.after_s:g} s later" * bool(one.after_s)
        lasts = f" for {one.planned_s:g} s" if one.planned_s else ""
        name = name_of(one.strike)
        lines.append(f"{number:3} {name:16} at {one.phase}{where}{lasts}, from epoch {one.after_epoch} on")
    return "\n".join(lines)


def show_plan(planned: Sequence[PlannedFault]) -> None:
    """Print a plan."""
    sys.stdout.write(describe(planned) + "\n")
