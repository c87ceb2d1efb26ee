"""What one reconciliation sends and strikes: a function of the seed, and the same for both streams."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.experiments.kills import Strike
from tests.experiments.strikes import DRIVER, EXECUTOR
from tests.harness.subject import Subject, seeded
from tests.harness.workload.errors import InputError
from tests.harness.workload.record import Planned, well_formed, window_end

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
MINUTES_MIN, KILLS_MAX = 12, 4
ALONE = "boundary"
"""User of the records that try the bound of lateness; nobody else's windows are touched."""


@dataclass(frozen=True)
class Attempt:
    """A record at the bound of its window's lateness.

    Attributes:
        distance_ms: of the watermark from window end + allowed lateness, when it is read.
        setter: a record in time whose event time becomes that watermark.
        record: the one that is tried.

    """

    distance_ms: int
    setter: Planned
    record: Planned


@dataclass(frozen=True)
class Plan:
    """Sizes are numbers of records.

    Attributes:
        seed: draws the records, and at which epochs is killed.
        records: of the seeded part.
        kills: executors and drivers in turn, executors first.
        minutes: of event time. The first stream's epochs follow it, about one a minute; the second reads the topic in
            as many batches. A pod takes longer to be replaced than a process, and epochs go on meanwhile.

    Raises:
        InputError: a value is none that can be played.

    """

    seed: int
    records: int = 4_000
    kills: int = 3
    minutes: int = MINUTES_MIN

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        if self.records < 1_000:
            raise InputError(f"records is {self.records}: with fewer than 1,000 hardly one is late")
        if not 0 <= self.kills <= KILLS_MAX:
            raise InputError(f"kills is {self.kills}: from 0 to {KILLS_MAX} are possible in {MINUTES_MIN} epochs")
        if self.minutes < MINUTES_MIN:
            raise InputError(f"minutes is {self.minutes}: in fewer than {MINUTES_MIN} there are not epochs enough")

    @property
    def subject(self) -> Subject:
        """The seeded stream: copies, records that are sent when they are late, and some that cannot be counted."""
        # It has attempts at the bound of its own, which every stream is asked about.
        return seeded(self.seed, self.records, self.minutes, places=())

    @property
    def batch_rows(self) -> int:
        """Records of a batch of the second stream."""
        return -(-self.records // self.minutes)

    @property
    def strikes(self) -> list[Strike]:
        """Every kill, and the epoch, counted from the first one, from which on it waits for its step."""
        rng = random.Random(f"kills of {self.seed}")
        return [Strike((EXECUTOR, DRIVER)[n % 2], 2 + 2 * n + rng.randrange(2)) for n in range(self.kills)]

    def attempts(self, latest_ms: int, first_n: int) -> list[Attempt]:
        """Three records at the bound of one window beyond all others: a millisecond before it, at it, and after it.

        Args:
            latest_ms: largest event time sent so far.
            first_n: number of the first record.

        """
        subject = self.subject
        start = window_end(latest_ms, subject.window_ms) + 10 * subject.window_ms
        bound = start + subject.window_ms + subject.lateness_ms
        found: list[Attempt] = []
        for distance in (-1, 0, 1):
            n = first_n + 2 * len(found)
            setter = well_formed(n, f"setter{distance:+}", ALONE, bound + distance, "it sets the watermark")
            # The last millisecond of the window: its bound is the window's, not the record's.
            record = well_formed(
                n + 1,
                f"bound{distance:+}",
                ALONE,
                start + subject.window_ms - 1,
                "it tries the bound",
                kind="fresh" if distance < 0 else "late",
            )
            found.append(Attempt(distance, setter, record))
        return found
