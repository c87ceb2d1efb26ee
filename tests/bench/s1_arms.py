"""The arms of S1: how each is started, how far it has come, and what it published; none is measured that is wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka.admin import NewTopic

from infra.embedded.process import Child
from tests.bench import accepted, counts, rates
from tests.bench.cpu import watch_cpu
from tests.bench.errors import BenchError
from tests.bench.flink import Flink
from tests.bench.place import PRODUCER, SINKS, Place
from tests.bench.rates import Seen
from tests.bench.s1_events import PARTITIONS, WINDOW_MS, Events
from tests.bench.streams import Job

TOPIC, SHARDS, OUTPUTS = "bench", 2, 2
LATENESS_MS = 120_000
WARM_UP = 0.25
"""Of the rows: they come before a measurement."""
OPEN_BATCHES = 4
"""A window is sent one or two batches after the one that closes it."""
SLOWEST_PER_S, LEAST_S = 2_000, 300.0
SETTLE_S, SETTLE_POLL_S = 15.0, 1.0
"""Flink's last windows are visible a checkpoint after the positions that close them."""
ARM = "arm"


@dataclass(frozen=True)
class Run:
    """One run of one program: on which events, under which name, which names its topics and folders as well.

    Attributes:
        module: of our job.
        conf: of Spark.
        accepted: whether accepted rows are published beside the counts.
        drops: whether copies are dropped; ours and Spark's programs always do.
        warm_up: share of the rows that come before the measurement.

    """

    place: Place
    events: Events
    name: str
    batch_rows: int
    master: str
    module: str
    conf: Mapping[str, str] = field(default_factory=dict)
    topic: str = TOPIC
    partitions: int = PARTITIONS
    accepted: bool = False
    drops: bool = True
    warm_up: float = WARM_UP

    @property
    def within_s(self) -> float:
        """How long it may take."""
        return LEAST_S + self.events.records / SLOWEST_PER_S

    @property
    def bootstrap(self) -> str:
        """Where the broker listens."""
        return self.place.endpoints.kafka_bootstrap

    @property
    def closed_by_ms(self) -> int:
        """Event time by which a window has to end that is published for sure."""
        return closed_by_ms(self.events, self.batch_rows)


@dataclass(frozen=True)
class Running:
    """A program that was started.

    Attributes:
        seen: tells how many rows it has done when.
        counts: topic of its counts.
        accepted: topic of the rows it accepted.
        topics: that go with it.

    """

    process: Child
    seen: Callable[[], list[Seen]]
    counts: str
    accepted: str
    topics: Sequence[str]


Start = Callable[[Run], Running]


def closed_by_ms(events: Events, batch_rows: int) -> int:
    """Event time by which a window has to end that is published for sure."""
    return events.reached_ms(events.records - OPEN_BATCHES * batch_rows) - LATENESS_MS


def start_ours(run: Run) -> Running:
    """Start a driver with its executors."""
    settings = run.place.pipeline(
        run.name,
        run.topic,
        run.module,
        shards=SHARDS,
        epoch_rows_max=run.batch_rows,
        lateness_ms=LATENESS_MS,
        window_ms=WINDOW_MS,
    )
    started = run.place.driver(run.name, run.module, settings.model_dump_json(), master=run.master, conf=run.conf)
    topics = [f"{run.name}.{sink}{end}" for sink in SINKS for end in ("", ".progress")]
    output, rows = f"{run.name}.user_counts", f"{run.name}.accepted"
    return Running(started.process, lambda: rates.epochs(started.events), output, rows, topics)


def start_spark(run: Run) -> Running:
    """Start plain Spark."""
    output, rows = _outputs(run)
    settings = {
        "bootstrap": run.bootstrap,
        "topic": run.topic,
        "output": output,
        "accepted": rows if run.accepted else None,
        "producer": PRODUCER,
        "checkpoint": str(run.place.scratch / "work" / run.name),
        "batch_rows": run.batch_rows,
        "window_ms": WINDOW_MS,
        "lateness_ms": LATENESS_MS,
    }
    started = run.place.driver(
        run.name, "tests.bench.s1_spark_job", json.dumps(settings), master=run.master, conf=run.conf
    )
    # The query that counts reads what the first one accepted.
    read = run.events.count(copies=not run.accepted)
    seen = lambda: rates.scale(rates.batches(started.events), read, run.events.records)  # noqa: E731
    return Running(started.process, seen, output, rows, [output, rows])


def start_streams(run: Run) -> Running:
    """Start Kafka Streams."""
    output, rows = _outputs(run)
    job = Job(
        run.name,
        run.topic,
        output,
        WINDOW_MS,
        run.events.span_ms,
        rows if run.accepted else "",
        LATENESS_MS if run.drops else 0,
        run.partitions,
    )
    counted = run.events.count(copies=not run.drops)
    seen = rates.follow(lambda: job.progress(run.place.admin, run.events.records, counted))
    return Running(job.start(run.place), seen, output, rows, [output, rows, *job.topics()])


def start_flink(run: Run) -> Running:
    """Start Flink."""
    output, rows = _outputs(run)
    flink = Flink(run.name, run.topic, output, WINDOW_MS, LATENESS_MS, rows if run.accepted else "", run.drops)
    return Running(
        flink.start(run.place), rates.follow(lambda: flink.progress(run.place.admin)), output, rows, [output, rows]
    )


def run_arm(arm: str, run: Run, start: Start) -> dict[str, Any]:
    """Run one arm; rows per second after the warm-up, CPU seconds meanwhile, and what they were counted from.

    Raises:
        BenchError: what it published is not what is due, or it was measured for no time.

    """
    total, running = run.events.records, start(run)
    with run.place.ending(running.process, run.name, running.topics):
        with watch_cpu({ARM: running.process.pid, **run.place.servers}) as spent:
            seen = rates.until_all(running.seen, total, run.within_s, running.process)
        measured = rates.rate(seen, int(total * run.warm_up), total)
        windows = _settle(arm, run, running)
    cpu = spent.between(measured.began_ms, measured.ended_ms)
    return {
        **measured.rounded,
        "cpu_s_per_million": {of: round(seconds / measured.rows * 1e6, 2) for of, seconds in cpu.items()},
        "windows_compared": windows,
        "seen": [[round(one.t_ms), one.rows] for one in seen],
    }


def _outputs(run: Run) -> tuple[str, str]:
    """Make topics for a peer's counts and accepted rows."""
    topics = f"{run.name}.counts", f"{run.name}.accepted"
    run.place.create([NewTopic(topic, OUTPUTS, 1) for topic in topics])
    return topics


def _settle(arm: str, run: Run, running: Running) -> int:
    """Compare what was published, again until it is right or the time is up, and return how many windows are in it."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        try:
            return _compare(arm, run, running)
        except BenchError:
            if time.monotonic() > deadline:
                raise
            time.sleep(SETTLE_POLL_S)


def _compare(arm: str, run: Run, running: Running) -> int:
    copies = not run.drops
    found = counts.per_user(counts.stream(run.bootstrap, running.counts))
    windows = counts.compare(arm, found, run.events.per_user(copies=copies), run.closed_by_ms, WINDOW_MS)
    if run.accepted:
        accepted.compare(arm, counts.stream(run.bootstrap, running.accepted), run.events, copies=copies)
    if windows == 0:
        run.place.console.say(f"  {arm}: no window is closed, so its counts are not compared: use smaller --batch-rows")
    return windows
