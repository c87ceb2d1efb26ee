"""What a seeded stream looks like, apart from its seed, and the exact numbers that follow."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.harness.workload.errors import InputError
from tests.harness.workload.pacing import Pace

SMALLEST = 100
"""Fewest records a seeded stream can have: below it the shares round to nothing."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Records planned: all of them (the closers not counted), and how many of each unusual kind."""

    sent: int
    duplicates_sent: int
    late_sent: int
    malformed_sent: int


@dataclass(frozen=True, slots=True)
class Shape:
    """Size and mixture of a seeded stream.

    `records` counts everything but the closers. `start_ms` (ms since 1970, moved up to a window start) and `span_ms`
    bound the event times; shares are fractions of `records`: byte copies in time (`duplicates`), late records with ids
    of their own (`late`), late copies of records accepted long before (`straddling`), and `malformed` ones. Payloads
    are at least `payload_bytes` long. `scripts`: some users' names end with text of other scripts. `partition_skew`:
    the first partition gets so many times the records of each other one; None: as users fall.
    """

    records: int = 240_000
    users: int = 1_000
    skew: float = 1.05
    producers: int = 2
    partitions: int = 4
    start_ms: int = 1_750_000_000_000
    span_ms: int = 20 * 60_000
    window_ms: int = 60_000
    duplicates: float = 0.05
    late: float = 0.01
    straddling: float = 0.001
    malformed: float = 0.005
    copy_within: int = 5_000
    bursts: tuple[float, ...] = (0.42, 0.6, 0.78, 0.95)
    pace: Pace = field(default_factory=Pace)
    payload_bytes: int = 0
    scripts: bool = False
    partition_skew: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be generated, naming field, value and what is allowed."""
        for name, least in (
            ("records", SMALLEST),
            ("users", 1),
            ("producers", 1),
            ("partitions", 1),
            ("start_ms", 0),
            ("span_ms", 1),
            ("window_ms", 1),
            ("copy_within", 1),
        ):
            if getattr(self, name) < least:
                raise InputError(f"workload setting {name} is {getattr(self, name)}: it must be {least} or more")
        shares = {name: getattr(self, name) for name in ("duplicates", "late", "straddling", "malformed")}
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise InputError(f"workload setting {name} is {share}: it is a fraction between 0 and 1")
        if sum(shares.values()) > 0.5:
            raise InputError(f"workload shares {shares} add up to more than 0.5: lower one, most records must be fresh")
        if self.partition_skew is not None and self.partition_skew < 1:
            raise InputError(f"workload setting partition_skew is {self.partition_skew:g}: it must be 1 or more")
        if self.pace.horizon_ms is None:
            raise InputError("workload setting pace.horizon_ms is None: a seeded stream is paced by event time, set it")
        if not self.bursts or not all(0.3 <= burst <= 1 for burst in self.bursts):
            raise InputError(
                f"workload setting bursts is {self.bursts}: give at least one place of late records, "
                "as fractions of the stream between 0.3 and 1"
            )

    @property
    def first_ms(self) -> int:
        """Event time (ms) of the first record: the first window start not before `start_ms`."""
        return -(-self.start_ms // self.window_ms) * self.window_ms

    @property
    def straddling_count(self) -> int:
        """Number of late copies of records accepted before."""
        return round(self.records * self.straddling)

    @property
    def late_own_count(self) -> int:
        """Number of late records with ids of their own."""
        return round(self.records * self.late)

    @property
    def numbers(self) -> Numbers:
        """The exact numbers, known before anything is generated; straddling copies count as late."""
        return Numbers(
            sent=self.records,
            duplicates_sent=round(self.records * self.duplicates),
            late_sent=self.late_own_count + self.straddling_count,
            malformed_sent=round(self.records * self.malformed),
        )
