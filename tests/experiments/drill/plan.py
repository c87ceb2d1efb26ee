"""What a drill destroys, and how long records flow before and after: a function of the seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.experiments.plan import demand
from tests.harness.workload.errors import InputError
from tests.harness.workload.pacing import Pace
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import Seeded
from tests.harness.workload.shape import Shape

BUCKET, TOPIC, CLUSTER = "bucket", "topic", "cluster"
PARTS = (BUCKET, TOPIC, CLUSTER)
MINUTES_MAX = 10
"""For so long there are records; a part that takes longer breaks off."""
EVENT_MS = 200
"""From one record to the next: at 150 a second half a minute passes in a second, so that windows close meanwhile."""


@dataclass(frozen=True)
class Plan:
    """Lengths are seconds.

    Attributes:
        seed: draws the records.
        parts: what is destroyed, one after the other, each with a pipeline of its own.
        pace: records sent in a second.
        before_s: from the first epoch to the last backup; there is one in the middle too.
        between_s: from the last backup to the destruction: what its sinks then have and it has not.
        after_s: from the first epoch after the restore to the end of sending.

    Raises:
        InputError: a value is none that can be played.

    """

    seed: int
    parts: tuple[str, ...] = PARTS
    pace: int = 150
    before_s: int = 12
    between_s: int = 8
    after_s: int = 8

    def __post_init__(self) -> None:
        """Take parts with commas between them too, and refuse what cannot be played."""
        parts = tuple(part for word in self.parts for part in word.split(",") if part)
        object.__setattr__(self, "parts", parts)
        if not parts or len({*parts}) < len(parts) or not {*parts} <= {*PARTS}:
            raise InputError(f"PARTS is {','.join(parts)!r}: some of {','.join(PARTS)}, each once")
        demand(self, pace=10, before_s=2, between_s=2, after_s=1)

    def stream(self) -> Iterator[Planned]:
        """The records: copies among them, none late, all well formed."""
        number = self.pace * 60 * MINUTES_MAX
        shape = Shape(
            records=number,
            users=200,
            span_ms=number * EVENT_MS,
            duplicates=0.05,
            late=0.0,
            straddling=0.0,
            malformed=0.0,
            copy_within=100,
            pace=Pace(),
        )
        return iter(Seeded(self.seed, shape))
