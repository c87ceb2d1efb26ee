"""What a run of fraud detection sends and kills, by seed: phases one after the other, each sent at a stated rate."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

ANALYZERS = ("average", "count", "proximity")
WINDOWS_MS = {"average": 30_000, "count": 10_000, "proximity": 20_000}
"""Short, so that a restarted analyzer reads back a part of the topic and not all of it."""
DEADLINE_MS, TARGET_MS = 14, 20
AGGREGATOR, STORE = "aggregator", "store"
WARM_UP, QUIET, FAST, ANALYZER_DEAD, AGGREGATOR_DEAD, STORE_DEAD = (
    "warm-up",
    "quiet",
    "quiet, faster",
    "analyzer killed",
    "aggregator killed",
    "store killed",
)
FASTER = 3
STORE_DOWN_S, HELD_MAX = 3.0, 20_000
SHARES = {WARM_UP: 1, QUIET: 4, FAST: 4, ANALYZER_DEAD: 4, AGGREGATOR_DEAD: 4, STORE_DEAD: 4}
KILLED = (ANALYZER_DEAD, AGGREGATOR_DEAD, STORE_DEAD)
MICRO_BATCH, REAL_TIME = "micro-batch", "real-time trigger"
SPARK_ARMS = (MICRO_BATCH, REAL_TIME)
EARLIEST, LATEST = 0.15, 0.3
"""Share of a phase's records after which its kill comes."""
BATCH_S = 5
"""Length of a batch of the real-time trigger: the shortest that Spark takes without a setting of its own."""


@dataclass(frozen=True)
class Kill:
    """Whom to kill once so many records of a phase are sent."""

    target: str
    after: int


@dataclass(frozen=True)
class Phase:
    """Records at a rate, and a kill among them or none."""

    name: str
    rate: int
    records: int
    kill: Kill | None = None


def phases(seed: int, records: int, rate: int, kills: int, store_down_s: float = STORE_DOWN_S) -> list[Phase]:
    """The phases of a run.

    Args:
        seed: draws which analyzer is killed, and when each kill comes.
        records: in all phases together, about; more where the store is to be away for longer than that takes.
        rate: a second; of one phase three times that.
        kills: how many; of more than three the next begin anew with the first kind.
        store_down_s: how long the store is away: transactions come in all the while.
    """
    rng = random.Random(f"fraud kills {seed}")
    names: Sequence[str] = [WARM_UP, QUIET, FAST, *(KILLED[n % len(KILLED)] for n in range(kills))]
    whole = sum(SHARES[name] for name in names)
    found = []
    for name in names:
        count = records * SHARES[name] // whole
        if name == STORE_DEAD:
            count = max(count, math.ceil(store_down_s * rate / (1 - LATEST)))
        found.append(Phase(name, rate * (FASTER if name == FAST else 1), count, _kill(name, count, rng)))
    return found


def _kill(name: str, count: int, rng: random.Random) -> Kill | None:
    if name not in KILLED:
        return None
    after = int(count * rng.uniform(EARLIEST, LATEST))
    victim = {ANALYZER_DEAD: rng.choice(ANALYZERS), AGGREGATOR_DEAD: AGGREGATOR, STORE_DEAD: STORE}[name]
    return Kill(victim, after)
