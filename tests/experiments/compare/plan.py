"""What one comparison sends and strikes: a function of the seed, and the same for every semantics."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from effectively_once_jobs.system_usage.usage import ASKED_AT_ONCE
from tests.experiments.kills import Strike
from tests.experiments.plan import demand
from tests.experiments.strikes import DRIVER, EXECUTOR
from tests.harness.workload.errors import InputError
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import Seeded
from tests.harness.workload.shape import SMALLEST, Shape

FRAUDS = 0.02
"""Share of transactions that the result store knows as frauds."""
RATE_MAX = 0.02
"""A task of exactly once, and of a checkpoint, succeeds only when none of its look-ups fails. Of 40 of them, so many as
an epoch has in a shard, 45 % do at this rate, and Spark gives a task 16 attempts."""
EPOCH_ROWS = 1_600
MALFORMED = 0.01
LATENESS_MS = 3_600_000
"""Longer than all event times together: nothing is late, so that the semantics alone decide what is counted."""
WARM_UP, BURST, CALM, STRUCK = "warm-up", "burst", "calm", "struck"


@dataclass(frozen=True)
class Plan:
    """Sizes are numbers of records.

    Attributes:
        seed: draws the records, which of them are frauds, which look-ups fail, and when executors are killed.
        rate: share of the look-ups that fail in the struck part.
        kills: executors killed in the struck part.
        driver_kills: drivers killed in it, after them; the next one begins with what was saved.
        pace: records sent in a second of the calm and of the struck part.
        time_out_s: of the acknowledger.

    Raises:
        InputError: a value is none that can be played.

    """

    seed: int
    rate: float = 0.02
    kills: int = 3
    driver_kills: int = 1
    warm_up: int = 1_000
    burst: int = 6_000
    calm: int = 3_000
    struck: int = 6_000
    pace: int = 200
    time_out_s: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        demand(self, warm_up=1, burst=SMALLEST, calm=SMALLEST, struck=SMALLEST, pace=1)
        if not 0 <= self.rate <= RATE_MAX:
            raise InputError(
                f"RATE is {self.rate:g}: from 0 to {RATE_MAX:g} is possible; beyond, tasks that succeed only if none "
                "of their look-ups fails come to no end"
            )
        most = self.struck // (50 * ASKED_AT_ONCE)
        if min(self.kills, self.driver_kills) < 0 or self.kills + self.driver_kills > most:
            raise InputError(
                f"kills are {self.kills} of executors and {self.driver_kills} of drivers: from 0 to {most} together "
                f"are possible with {self.struck:,} records in the struck part"
            )

    @property
    def parts(self) -> dict[str, range]:
        """Part -> numbers of its records, in the order in which they are sent."""
        found, start = {}, 0
        for name, size in ((WARM_UP, self.warm_up), (BURST, self.burst), (CALM, self.calm), (STRUCK, self.struck)):
            found[name] = range(start, start + size)
            start += size
        return found

    @property
    def records(self) -> int:
        """All records, the closers not counted."""
        return self.warm_up + self.burst + self.calm + self.struck

    def stream(self) -> Iterator[Planned]:
        """The records: no copies and no late ones, and some that are no transactions."""
        shape = Shape(records=self.records, duplicates=0.0, late=0.0, straddling=0.0, malformed=MALFORMED)
        return iter(Seeded(self.seed, shape))

    def is_fraud(self, id_: str) -> bool:
        """Whether the result store knows a transaction as a fraud."""
        return crc32(f"{self.seed}|{id_}".encode()) < FRAUDS * 2**32

    @property
    def strikes(self) -> list[Strike]:
        """Every kill, in its order; the executors' come first. Look-ups are counted from the first of the struck part.

        Portions are never larger than `ASKED_AT_ONCE`, so there are more look-ups than this reckons with; what is lost
        with an executor or a driver is not looked up.
        """
        rng = random.Random(f"kills of {self.seed}")
        targets = [EXECUTOR] * self.kills + [DRIVER] * self.driver_kills
        slot = self.struck // ASKED_AT_ONCE * 0.6 / max(len(targets), 1)
        return [Strike(target, round(slot * (number + rng.uniform(0.2, 0.8)))) for number, target in enumerate(targets)]
