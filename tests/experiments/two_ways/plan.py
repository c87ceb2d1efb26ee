"""What is sent to each arm, and who is killed in it: a function of the seed and of the number of operators."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from effectively_once_jobs.two_ways.running import MODULUS
from effectively_once_jobs.two_ways.settings import DEDUP, SNAPSHOTS, Way
from effectively_once_jobs.two_ways.stage import NOTED, PASSED_ON, TAKEN
from tests.experiments.plan import demand
from tests.experiments.strikes import DRIVER, EXECUTOR
from tests.harness.workload.errors import InputError
from tests.harness.workload.record import Planned, well_formed

WARM_UP, BURST, PACED = "warm-up", "burst", "paced"
OPERATOR = "operator"
NO_CATALOG = "no_catalog"
STAGES = (NOTED, PASSED_ON, TAKEN)
"""Where an operator of dedup is killed: one kill after the other, the worst moment for the first."""
KILLS_MAX = 6
START_MS = 1_750_000_000_000


@dataclass(frozen=True, slots=True)
class Arm:
    """One way with so many operators; `catalog` False is the negative control."""

    way: Way
    operators: int
    catalog: bool = True

    @property
    def name(self) -> str:
        """Of its folder and its pipeline."""
        return f"{self.way if self.catalog else NO_CATALOG}_{self.operators}"


@dataclass(frozen=True, slots=True)
class Part:
    """Records that are sent together.

    Attributes:
        kind: at once, or at the pace of the plan.
        kills: how many processes are killed meanwhile.
        numbers: of its records.

    """

    kind: str
    kills: int
    numbers: range

    @property
    def name(self) -> str:
        """Of its phase in the history."""
        return f"{self.kind} {self.kills}"


@dataclass(frozen=True, slots=True)
class Strike:
    """A kill.

    Attributes:
        operator: of which the process is killed, or, with snapshots, the process that is just running it.
        rows: records that the operator takes in the part before.
        stage: the point of a turn; a query knows `taken` alone.
        target: of snapshots, what is killed.

    """

    operator: int
    rows: int
    stage: str
    target: str


@dataclass(frozen=True)
class Plan:
    """Sizes are numbers of records.

    Attributes:
        seed: draws records and kills.
        operators: numbers of operators that are tried.
        kills: numbers of kills that are tried; of each a burst, and a part at a pace.
        warm_up: before anything is measured.
        burst: sent at once.
        paced: sent at `pace`, so many a second.
        users: keys of the operators' state.
        rows_max: records of a batch of the query, or of a turn of an operator.

    Raises:
        InputError: a value is none that can be played.

    """

    seed: int
    operators: tuple[int, ...] = (2, 4, 8)
    kills: tuple[int, ...] = (0, 1, 3)
    warm_up: int = 300
    burst: int = 3_000
    paced: int = 1_000
    pace: int = 100
    users: int = 16
    rows_max: int = 500

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        for name in ("operators", "kills"):
            values = getattr(self, name)
            if not values or list(values) != sorted(set(values)):
                raise InputError(f"{name} are {values}: each once, in ascending order")
        if self.operators[0] < 1 or self.operators[-1] > 32:
            raise InputError(f"operators are {self.operators}: from 1 to 32 are possible")
        if self.kills[0] < 0 or self.kills[-1] > KILLS_MAX:
            raise InputError(f"kills are {self.kills}: from 0 to {KILLS_MAX} are possible")
        demand(self, warm_up=1, burst=1, paced=100, pace=1, users=1, rows_max=1)
        # A kill may take as long as a batch to hit; what is left of the part is to be more.
        if self.burst < 2 * self.kills[-1] * self.rows_max:
            raise InputError(
                f"a burst of {self.burst:,} records is too short for {self.kills[-1]} kills: "
                f"{2 * self.kills[-1] * self.rows_max:,} or more are needed with batches of {self.rows_max:,}"
            )

    @property
    def arms(self) -> list[Arm]:
        """Every arm, in the order in which they are played; the negative control last."""
        both = [Arm(way, number) for number in self.operators for way in (SNAPSHOTS, DEDUP)]
        return [*both, *([Arm(DEDUP, self.operators[0], catalog=False)] if self.kills[-1] else [])]

    def parts(self, arm: Arm) -> list[Part]:
        """Parts of an arm; the control has the burst with the most kills alone."""
        wanted = [(WARM_UP, 0, self.warm_up)]
        for kills in self.kills if arm.catalog else self.kills[-1:]:
            wanted += [(BURST, kills, self.burst), *([(PACED, kills, self.paced)] if arm.catalog else [])]
        found, start = [], 0
        for kind, kills, size in wanted:
            found.append(Part(kind, kills, range(start, start + size)))
            start += size
        return found

    def strikes(self, arm: Arm, part: Part) -> list[Strike]:
        """Kills of a part, in their order: the same operators for both ways.

        Further down comes later: who is above a killed operator goes on meanwhile, and would be through with the part.
        """
        rng = random.Random(f"{self.seed} {part.name} {arm.operators}")
        operators = sorted(rng.randrange(arm.operators) for _ in range(part.kills))
        slot = len(part.numbers) * 0.6 / max(part.kills, 1)
        found = []
        for number, operator in enumerate(operators):
            rows = round(slot * (number + rng.uniform(0.2, 0.8)))
            last = part.kind == PACED and number == part.kills - 1 > 0
            if arm.way == SNAPSHOTS:
                found.append(Strike(operator, rows, TAKEN, DRIVER if last else EXECUTOR))
            else:
                found.append(Strike(operator, rows, STAGES[number % len(STAGES)], OPERATOR))
        return found

    def stream(self, records: int) -> Iterator[Planned]:
        """The first records: the same ones for every arm; the amount is the payload."""
        rng = random.Random(f"records of {self.seed}")
        for number in range(records):
            user, amount = f"user-{rng.randrange(self.users):03}", rng.randrange(MODULUS)
            yield well_formed(number, f"r{number:07}", user, START_MS + number, str(amount))
