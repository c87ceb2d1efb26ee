"""How long after a declaration a fault comes and how long it lasts, drawn from the seed; pure functions only."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.harness import cut_sorts, lag_sorts, stall_sorts
from tests.harness.cut_sorts import CUT
from tests.harness.platform_sorts import OUT_OF_MEMORY
from tests.harness.schedule import DECLARED, PlannedFault
from tests.harness.slow_disk_sorts import SLOW_DISK
from tests.harness.stall_sorts import DELAYED, STALL

READING_S = 1.5
"""A shard reads its input within so long after the declaration."""
AFTER_DECLARATION = (*DELAYED, CUT, OUT_OF_MEMORY)
"""Kinds that come some time after a declaration: by then shards read their input, each from the other executors."""


def with_lengths(
    planned: Sequence[PlannedFault],
    seed: int,
    lengths_s: Sequence[float] = stall_sorts.LENGTHS_S,
    cuts_s: Sequence[float] = cut_sorts.LENGTHS_S,
    lags_s: Sequence[float] = lag_sorts.LENGTHS_S,
) -> list[PlannedFault]:
    """The same plan, in which what lasts has a length, and what comes after a declaration a delay.

    Args:
        planned: in their order.
        seed: draws.
        lengths_s: of stalls, of which each comes once before one comes twice; likewise of slow disks.
        cuts_s: likewise of cuts.
        lags_s: likewise of drivers, gateways and leaders that are away and partitions that lag.
    """
    rng = random.Random(f"stalls of {seed}")
    lengths = {STALL: lengths_s, SLOW_DISK: lengths_s, CUT: cuts_s, **dict.fromkeys(lag_sorts.LASTING, lags_s)}
    left: dict[str, list[float]] = {kind: [] for kind in lengths}
    drawn = []
    for one in planned:
        kind = one.strike.kind
        if kind in AFTER_DECLARATION and one.step == DECLARED:
            one = replace(one, after_s=round(rng.uniform(0.0, READING_S), 3))  # noqa: PLW2901
        if kind in lengths:
            left[kind] = left[kind] or rng.sample(lengths[kind], len(lengths[kind]))
            one = replace(one, planned_s=left[kind].pop())  # noqa: PLW2901
        drawn.append(one)
    return drawn
