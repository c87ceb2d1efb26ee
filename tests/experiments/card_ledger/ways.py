"""The three ways to call, and the kills that each of them gets; data and pure functions only."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.harness.mixture import EMBEDDED, OPEN
from tests.harness.schedule import PlannedFault

PACKAGE = "effectively_once_jobs.card_ledger"
FIRST_EPOCH = 1
CALLED, PUBLISHING = "called", "publishing"
KILLS = (("executor-kill", CALLED), ("driver-kill", CALLED), ("executor-kill", PUBLISHING))
"""What is killed, and when: once the shard has called and before anything of its answers is recorded; or while its rows
are in an open transaction. Of more kills than these the next ones begin anew."""


@dataclass(frozen=True)
class Way:
    """One way to call.

    Attributes:
        name: of the declaration in the job's module.
        says: what it does, in a line.
        called: the first step that a shard announces once it has called.
        publishing: the step at which its rows stand before their commit.
    """

    name: str
    says: str
    called: tuple[str, str]
    publishing: tuple[str, str]

    @property
    def job(self) -> str:
        """As settings name it."""
        return f"{PACKAGE}:{self.name}"


_RECORDED = {"called": ("answered", "charge"), "publishing": (OPEN, "charges")}
PLAIN = Way("plain", "charge, once a transaction", **_RECORDED)
KEYED = Way("keyed", "charge with the record's id as idempotency key", **_RECORDED)
# The call stands in a stage of Spark before the one that publishes: nothing else is announced between the two.
RESTRUCTURED = Way(
    "restructured",
    "set_card_balance with the running balance",
    called=(OPEN, "balances"),
    publishing=(OPEN, "balances"),
)
WAYS = (PLAIN, KEYED, RESTRUCTURED)


def plan(way: Way, seed: int, kills: int, shards: int) -> list[PlannedFault]:
    """The kills of a way: of one seed the same for each, in order, victims and shards, at its own name of the step.

    Args:
        way: which.
        seed: draws order and shards.
        kills: how many, at least 1.
        shards: of the pipeline.
    """
    rng = random.Random(f"kills of cards {seed}")
    order = [KILLS[number % len(KILLS)] for number in range(kills)]
    rng.shuffle(order)
    return [
        PlannedFault(
            FIRST_EPOCH, *(way.called if when == CALLED else way.publishing), rng.randrange(shards), EMBEDDED[name]
        )
        for name, when in order
    ]


def describe_kills(kills: int) -> str:
    """The kills of each way, in one line."""
    names: Sequence[str] = [f"{name} once {when}" for name, when in (KILLS[n % len(KILLS)] for n in range(kills))]
    return ", ".join(names)
