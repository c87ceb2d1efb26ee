"""Which fault comes when: drawn from the seed before the run, so that a seed is a plan."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Where an epoch can be hit: while a shard gets its input, before anything is visible, between records and commit, and
# after a commit that is not yet known.
STEPS = (
    ("dedup_begun", None),
    ("ids_decided", None),
    ("transaction_open", "accepted"),
    ("committed", "accepted"),
    ("windows_begun", None),
    ("windows_decided", None),
    ("transaction_open", "user_counts"),
)


# A strike from afar takes some 0.1 s: these steps have half of the epoch's work still before them.
EARLY_STEPS = STEPS[:4]
DECLARED = "declared"
"""Not a step of a shard: head declares the epoch, and nothing of it is done."""
EXECUTOR, EVERY_EXECUTOR = "executor", "every executor"
DRIVER, PYTHON_WORKER = "driver", "python worker"
"""Targets of a strike, as history names them."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A sort of fault, as history and results name it.

    Attributes:
        kind: what is done: `sigkill`, `sigstop`, `stall`, `zombie`, `pod_delete_now` (no grace), `pod_delete_graceful`.
        target: to whom: `executor`, `every executor`, `driver`, `python worker`, `broker`, `object store`.
    """

    kind: str
    target: str = EXECUTOR


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A strike when a step of an epoch is announced, where that is part of the fault at whoever announced it.

    Attributes:
        after_epoch: the first epoch that may be hit.
        step: the announced step that is waited for, and its sink (None: the step has none).
        shard: the shard whose step that is.
        strike: what is done.
        after_s: how long after the announcement: nobody announces that a shard reads its input.
        planned_s: how long it is to last; None where the sort of fault says so, or does not last.
    """

    after_epoch: int
    step: str
    sink: str | None
    shard: int
    strike: Strike = Strike("sigkill")
    after_s: float = 0.0
    planned_s: float | None = None

    @property
    def phase(self) -> str:
        """As reports name it."""
        return f"{self.step}:{self.sink}" if self.sink else self.step

    def matches(self, event: Mapping[str, Any], *, exactly: bool = True) -> bool:
        """Whether an announcement is the one waited for; a re-armed fault takes the step in any shard."""
        if self.step == DECLARED:
            return (event["event"], event.get("state")) == ("epoch", DECLARED) and event["epoch"] >= self.after_epoch
        return (
            event["event"] == "step"
            and event["epoch"] >= self.after_epoch
            and event["step"] == self.step
            and event["sink"] == self.sink
            and (event["shard"] == self.shard or not exactly)
        )


def plan(seed: int, kills: int, shards: int, first_epoch: int = 1, spacing: int = 2) -> list[PlannedFault]:
    """Kills of one run: every step of `STEPS` once before one comes twice, `spacing` epochs apart, or one more."""
    rng = random.Random(f"faults of {seed}")
    order = list(STEPS)
    rng.shuffle(order)
    planned, epoch = [], first_epoch
    for number in range(kills):
        step, sink = order[number % len(order)]
        planned.append(PlannedFault(epoch, step, sink, rng.randrange(shards)))
        epoch += spacing + rng.randrange(2)
    return planned


def plan_of(seed: int, strikes: Sequence[Strike], shards: int, first_epoch: int = 1) -> list[PlannedFault]:
    """Every strike once, in an order drawn from the seed, each at an early step; every step in its turn."""
    rng = random.Random(f"strikes of {seed}")
    order = list(strikes)
    rng.shuffle(order)
    steps = list(EARLY_STEPS)
    rng.shuffle(steps)
    return [
        PlannedFault(first_epoch, *steps[number % len(steps)], rng.randrange(shards), strike)
        for number, strike in enumerate(order)
    ]
