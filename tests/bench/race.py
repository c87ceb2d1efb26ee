"""The packaged job, driver and executors, beside Kafka Streams, Flink and plain Spark: same input, same output.

`python -m tests.bench race`: JSON events, copies among them; out come accepted rows to one topic and counts per user
and minute to another, or the counts alone. A topic for each size of records and number of partitions, filled once; the
arms take turns, each beginning anew. A sample is rows per second, and CPU seconds per million records, from the end of
a warm-up until all rows are processed and committed. What an arm published is compared with what was sent each time:
one that is wrong is named, and has no ratio.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from typing import Any

from tests.bench import race_table, streams
from tests.bench.errors import BenchError
from tests.bench.facts import Kept
from tests.bench.flink import CHECKPOINT_MS, SLOTS
from tests.bench.options import add_common, in_turn, pick
from tests.bench.place import HEAP_MIB, LASTING_JVM, MASTERS, PRODUCER, Place, open_place
from tests.bench.race_arms import BOTH, OUTPUTS, PROGRAMS, Arm, Course
from tests.bench.race_table import WRONG
from tests.bench.s1_arms import LATENESS_MS, SHARDS, closed_by_ms, run_arm
from tests.bench.s1_events import LEAST_BYTES, OUT_OF_ORDER_MS, START_MS, WINDOW_MS
from tests.bench.spark_arm import ROCKSDB

WARM_UP = 0.4
"""Of the rows. A JVM compiles for its first 600,000 or so."""
PARTITIONS_MAX = 256


def arguments(given: argparse.ArgumentParser) -> None:
    """Add the options of this case."""
    given.add_argument("--records", type=int, default=2_000_000)
    given.add_argument("--bytes", type=int, nargs="+", default=[100, 1_000], help="sizes of a record")
    given.add_argument("--partitions", type=int, nargs="+", default=[4, 32], help="of the input")
    given.add_argument("--outputs", nargs="+", choices=OUTPUTS, default=list(OUTPUTS), help="accepted rows or not")
    given.add_argument("--batch-rows", type=int, default=100_000, help="rows of our epoch, and of a batch of Spark")
    add_common(given, master="cluster", arms=list(PROGRAMS))


def measure(asked: argparse.Namespace) -> str:
    """Run it and return the tables."""
    require(asked)
    kept = Kept.begin(
        "race",
        asked.resume,
        **pick(asked, "records", "bytes", "partitions", "rounds", "batch_rows", "arms", "outputs"),
        warm_up=WARM_UP,
        shards=SHARDS,
        lateness_ms=LATENESS_MS,
        master=MASTERS[asked.master],
        heap_mib=HEAP_MIB,
        jvm=LASTING_JVM,
        streams={"commit_ms": streams.COMMIT_MS, "threads": streams.THREADS, "cache_mib": streams.CACHE_MIB},
        flink={"checkpoint_ms": CHECKPOINT_MS, "slots": SLOTS},
        producer=PRODUCER,
        rocksdb=ROCKSDB,
    )
    courses = [Course(asked.records, *each) for each in product(asked.bytes, asked.partitions)]
    arms = {arm.name: arm for arm in (Arm(key, each == BOTH) for each, key in product(asked.outputs, asked.arms))}
    samples: dict[Course, dict[Arm, list[dict[str, Any]]]] = {
        course: {arm: [] for arm in arms.values()} for course in courses
    }
    with open_place() as place:
        for course in courses:
            wanted = (_which(course, *each) for each in product(arms.values(), range(asked.rounds)))
            if any(kept.find_sample(**which) is None for which in wanted):
                place.fill_topic(course.topic, course.events.values(), str(course), course.partitions)
        for number, course in product(range(asked.rounds), courses):
            for arm in map(arms.__getitem__, in_turn([*arms], number)):
                once = partial(_once, place, course, arm, number, asked)
                with place.console.step(f"round {number + 1}, {course}: {arm.name}"):
                    sample = kept.take(once, **_which(course, arm, number))
                place.console.say(f"  {race_table.say(sample)}")
                samples[course][arm].append(sample)
    text, figures = race_table.write(samples)
    if not figures:
        raise BenchError(f"every arm is wrong, so there is no measurement\n{text}")
    return kept.finish(text, "The packaged job and its peers", "rows/s", figures)


def require(asked: argparse.Namespace) -> None:
    """Refuse options that make no measurement. Raises BenchError with the option, its value and what to give."""
    least = {"records": 1, "rounds": 1, "batch_rows": 1, "bytes": LEAST_BYTES, "partitions": 1}
    for name, smallest in least.items():
        given = getattr(asked, name)
        if wrong := [each for each in (given if isinstance(given, list) else [given]) if each < smallest]:
            raise BenchError(f"--{name.replace('_', '-')} {wrong[0]}: give {smallest:,} or more")
    if max(asked.partitions) > PARTITIONS_MAX:
        raise BenchError(f"--partitions {max(asked.partitions)}: give {PARTITIONS_MAX} or less")
    for name in ("bytes", "partitions", "outputs", "arms"):
        given = getattr(asked, name)
        if len({*given}) < len(given):
            raise BenchError(f"--{name} {' '.join(map(str, given))}: name each once")
    events = Course(asked.records, asked.bytes[0], 1).events
    # What a query of Spark reads of another's batch has no order: a longer one has rows that are late for its rest.
    if (most := asked.records * (LATENESS_MS - OUT_OF_ORDER_MS) // events.span_ms) < asked.batch_rows:
        raise BenchError(
            f"--batch-rows {asked.batch_rows:,}: a batch is longer than windows wait; give {most:,} or less, or more "
            "--records"
        )
    if closed_by_ms(events, asked.batch_rows) < START_MS + WINDOW_MS:
        raise BenchError(f"--batch-rows {asked.batch_rows:,}: no window would be closed for sure; give smaller ones")


def _once(place: Place, course: Course, arm: Arm, number: int, asked: argparse.Namespace) -> dict[str, Any]:
    run = arm.run(place, course, number, batch_rows=asked.batch_rows, master=MASTERS[asked.master], warm_up=WARM_UP)
    try:
        return run_arm(arm.name, run, arm.program.start)
    except BenchError as error:
        return {WRONG: str(error)}


def _which(course: Course, arm: Arm, number: int) -> dict[str, Any]:
    """What a sample is of."""
    return {"bytes": course.bytes, "partitions": course.partitions, "arm": arm.name, "round": number}
