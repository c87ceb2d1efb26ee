"""What is sent, and which drivers play it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench.optimisations_table import AS_IS, COMBINER, EPOCH, FUSION, QUERY
from tests.bench.s1_arms import LATENESS_MS
from tests.bench.s1_events import WINDOW_MS, Events

NEITHER = f"{FUSION}, {COMBINER}"
ARMS = {QUERY: (AS_IS, FUSION, COMBINER, NEITHER), EPOCH: (AS_IS, FUSION, COMBINER)}
"""Variants by what they are of."""
ROUND = 0
"""Number of the round of the query whose bytes are shown; its answers are judged in every round."""
OPEN_EPOCHS = 3
"""A window is published one or two epochs after the one whose records close it."""


@dataclass(frozen=True)
class Actor:
    """A driver: its folder, and the module that it runs.

    Attributes:
        arm: the variant; None: the driver of the query plays all of them in turn.
    """

    name: str
    module: str
    arm: str | None = None


ACTORS = (
    Actor("query", "tests.bench.optimised_job"),
    Actor("as_is", "effectively_once_jobs.user_counts", AS_IS),
    Actor("not_fused", "tests.bench.unfused_job", FUSION),
    Actor("not_combined", "tests.bench.uncombined_job", COMBINER),
)


@dataclass(frozen=True)
class Plan:
    """Sizes: records, users that have most of them in few hands, records of an epoch."""

    seed: int
    records: int = 100_000
    users: int = 1_000
    epoch_rows: int = 20_000

    @property
    def events(self) -> Events:
        """What is sent."""
        return Events(self.records, self.users, seed=self.seed)

    @property
    def closed_by_ms(self) -> int:
        """Event time by which a window has to end that a pipeline must have published."""
        return self.events.reached_ms(self.records - OPEN_EPOCHS * self.epoch_rows) - LATENESS_MS

    def closed(self, start_ms: int) -> bool:
        """Whether the window that begins then has to be published."""
        return start_ms + WINDOW_MS <= self.closed_by_ms
