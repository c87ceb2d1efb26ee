"""The programs of the race, what each does, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench.place import Place
from tests.bench.s1_arms import Run, Start, start_flink, start_ours, start_spark, start_streams
from tests.bench.s1_events import Events

PACKAGED, COUNTS_ONLY = "effectively_once_jobs.user_counts", "tests.bench.s1_job"
OURS = "ours"
BOTH, COUNTS = "both", "counts"
OUTPUTS = (BOTH, COUNTS)
"""Accepted rows beside the counts, or the counts alone."""


@dataclass(frozen=True)
class Program:
    """A program that takes part.

    Attributes:
        drops: whether it drops copies.
        ahead: how many times its rows per second the packaged job is to process.

    """

    name: str
    start: Start
    does: str
    drops: bool = True
    ahead: float | None = None


_STREAMS = (
    "exactly once to Kafka (exactly_once_v2, commit every second), one JVM with two threads; a count is sent whenever "
    "it leaves the cache, not only the final one; RocksDB, changelog in the broker"
)
_FLINK = (
    "exactly once to Kafka (transactions, checkpoint every second), one JVM with two slots, objects reused; final "
    "counts of closed windows; state on the heap, checkpoints in a local folder"
)
PROGRAMS = {
    OURS: Program(
        "ours",
        start_ours,
        "the packaged job, a driver and two executors of one core in JVMs of their own; exactly once to Kafka "
        "(transactions); copies dropped; final counts of closed windows, and their totals as files; state and "
        "checkpoint on the object store. For counts alone, the same job without its topic of accepted rows",
    ),
    "streams": Program(
        "Kafka Streams",
        start_streams,
        f"{_STREAMS}; copies NOT dropped, so rows go through one topic in between",
        False,
        1.5,
    ),
    "streams-dedup": Program(
        "Kafka Streams, dedup",
        start_streams,
        f"{_STREAMS}; copies dropped by a processor with a window store of ids, as its guides build it, behind a topic "
        "in between by id",
        ahead=1.5,
    ),
    "flink": Program("Flink", start_flink, f"{_FLINK}; copies NOT dropped", False, 1.0),
    "flink-dedup": Program(
        "Flink, dedup",
        start_flink,
        f"{_FLINK}; copies dropped by state of each id, which a timer of event time clears",
        ahead=1.0,
    ),
    "spark": Program(
        "plain Spark",
        start_spark,
        "executors as ours; AT LEAST once to Kafka: a repeated batch is sent again; copies dropped "
        "(dropDuplicatesWithinWatermark); final counts of closed windows; RocksDB with changelog, state and checkpoint "
        "in a local folder. Accepted rows are sent by one query and counted by a second one, which reads them there",
        ahead=2.0,
    ),
}


@dataclass(frozen=True)
class Course:
    """What all arms are given: so many records of a size (bytes) in a topic of so many partitions."""

    records: int
    bytes: int
    partitions: int

    @property
    def topic(self) -> str:
        """Name of the input."""
        return f"race_{self.bytes}_{self.partitions}"

    @property
    def events(self) -> Events:
        """What is in it."""
        return Events(self.records, record_bytes=self.bytes)

    def __str__(self) -> str:
        """Say the sizes that differ."""
        return f"{self.bytes:,} bytes, {self.partitions} partitions"


@dataclass(frozen=True)
class Arm:
    """A program, by its key, and whether it publishes accepted rows beside the counts."""

    key: str
    accepted: bool

    @property
    def program(self) -> Program:
        """What runs."""
        return PROGRAMS[self.key]

    @property
    def name(self) -> str:
        """Name in tables."""
        return self.program.name if self.accepted else f"{self.program.name}, counts only"

    def run(self, place: Place, course: Course, number: int, *, batch_rows: int, master: str, warm_up: float) -> Run:
        """Return its run of a round."""
        outputs = BOTH if self.accepted else COUNTS
        return Run(
            place,
            course.events,
            f"r{number}_{course.bytes}_{course.partitions}_{self.key.replace('-', '_')}_{outputs}",
            batch_rows,
            master,
            PACKAGED if self.accepted else COUNTS_ONLY,
            topic=course.topic,
            partitions=course.partitions,
            accepted=self.accepted,
            drops=self.program.drops,
            warm_up=warm_up,
        )
