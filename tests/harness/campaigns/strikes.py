"""Strikes as people read them, one more of them drawn from a seed, and the steps at which they come."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tests.harness.mixture import EMBEDDED, name_of, steps_of
from tests.harness.schedule import STEPS, PlannedFault, Strike
from tests.harness.stall_sorts import Steps

KILLS_OF_THE_DEMO = (
    "executors-kill",
    "driver-kill",
    "worker-kill",
    "broker-kill",
    "store-kill",
    "executor-stall",
    "broker-cut",
    "store-cut",
)
"""Those of the embedded stack that cost a demo no more than some seconds; a stall and a cut last one of SHORT_S."""


def one_of(names: Sequence[str], seed: int) -> Strike:
    """A sort of the embedded stack, drawn from the seed."""
    return EMBEDDED[random.Random(f"one more of {seed}").choice(names)]


def at_their_steps(planned: Sequence[PlannedFault], seed: int, steps: Steps = STEPS) -> list[PlannedFault]:
    """The same plan, in which a strike that does not come at its step takes one that it comes at.

    Args:
        planned: in their order.
        seed: draws.
        steps: of a task that any fault takes.
    """
    rng = random.Random(f"steps of {seed}")
    drawn = []
    for one in planned:
        own = steps_of(one.strike, steps)
        if (one.step, one.sink) not in own:
            step, sink = rng.choice(own)
            one = replace(one, step=step, sink=sink)  # noqa: PLW2901
        drawn.append(one)
    return drawn


def count_by_kind(strikes: Iterable[Strike]) -> str:
    """How many of which, in one line."""
    sorts = Counter(name_of(one) for one in strikes)
    return ", ".join(f"{count} {name}" for name, count in sorted(sorts.items()))
