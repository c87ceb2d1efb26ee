"""The arms of S1: each runs once on the topic that is there, and tells how many rows were done when."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import NewTopic

from infra.embedded.process import wait_for
from tests.bench import counts, rates, s1_streams
from tests.bench.place import Place
from tests.bench.rates import Seen
from tests.bench.s1_events import WINDOW_MS, Events

OURS, SPARK, STREAMS = "ours", "plain Spark", "Kafka Streams"
DOES = {
    OURS: "exactly once to Kafka (transactions); copies dropped; final counts of closed windows; state and checkpoint "
    "on the object store",
    SPARK: "at least once to Kafka: a repeated batch is sent again; copies dropped (dropDuplicatesWithinWatermark); "
    "final counts of closed windows; RocksDB with changelog, state and checkpoint in a local folder",
    STREAMS: "exactly once to Kafka (exactly_once_v2, commit every second); copies NOT dropped; a count is sent "
    "whenever it leaves the cache, not only the final one; RocksDB, changelog in the broker",
}
TOPIC, SHARDS, OUTPUTS = "bench", 2, 2
LATENESS_MS = 120_000
WARM_UP = 0.25
"""Of the rows: they come before a measurement."""
SLOWEST_PER_S, LEAST_S = 4_000, 300.0


@dataclass(frozen=True)
class Run:
    """One run of one arm: on which events, under which name, which names its topics and folders as well."""

    place: Place
    events: Events
    name: str
    batch_rows: int
    master: str
    module: str
    conf: dict[str, str]

    @property
    def within_s(self) -> float:
        """How long it may take."""
        return LEAST_S + self.events.records / SLOWEST_PER_S


def _ours(run: Run, compare: bool) -> tuple[list[Seen], int]:
    settings = run.place.pipeline(
        run.name,
        TOPIC,
        run.module,
        shards=SHARDS,
        epoch_rows_max=run.batch_rows,
        lateness_ms=LATENESS_MS,
        window_ms=WINDOW_MS,
    )
    started = run.place.driver(run.name, run.module, settings.model_dump_json(), master=run.master, conf=run.conf)
    output = f"{run.name}.user_counts"
    with run.place.ending(started.process, run.name, [output]):
        seen = rates.until_all(lambda: rates.epochs(started.events), run.events.records, run.within_s, started.process)
        return seen, _compare(run, OURS, output, compare)


def _spark(run: Run, compare: bool) -> tuple[list[Seen], int]:
    output = f"{run.name}.counts"
    run.place.create([NewTopic(output, OUTPUTS, 1)])
    settings = {
        "bootstrap": run.place.endpoints.kafka_bootstrap,
        "topic": TOPIC,
        "output": output,
        "checkpoint": str(run.place.scratch / "work" / run.name),
        "batch_rows": run.batch_rows,
        "window_ms": WINDOW_MS,
        "lateness_ms": LATENESS_MS,
    }
    started = run.place.driver(
        run.name, "tests.bench.s1_spark_job", json.dumps(settings), master=run.master, conf=run.conf
    )
    with run.place.ending(started.process, run.name, [output]):
        seen = rates.until_all(lambda: rates.batches(started.events), run.events.records, run.within_s, started.process)
        return seen, _compare(run, SPARK, output, compare)


def _streams(run: Run, compare: bool) -> tuple[list[Seen], int]:
    output = f"{run.name}.counts"
    run.place.create([NewTopic(output, OUTPUTS, 1)])
    job = s1_streams.Job(run.name, TOPIC, output, WINDOW_MS, run.events.span_ms)
    process = job.start(run.place)
    seen: list[Seen] = []

    def all_seen() -> bool:
        seen.append(job.progress(run.place.admin, run.events.records, lambda: time.time() * 1000))
        return seen[-1].rows >= run.events.records

    with run.place.ending(process, run.name, [output, *job.topics()]):
        wait_for(f"{run.events.records:,} rows", run.within_s, all_seen, process)
        steps = [now for before, now in zip([Seen(0, 0), *seen], seen, strict=False) if now.rows > before.rows]
        return steps, _compare(run, STREAMS, output, compare)


ARMS: dict[str, Callable[[Run, bool], tuple[list[Seen], int]]] = {OURS: _ours, SPARK: _spark, STREAMS: _streams}


def run_arm(run: Run, arm: str, *, compare: bool) -> dict[str, Any]:
    """Run one arm; rows per second after the warm-up, and what they were counted from."""
    seen, windows = ARMS[arm](run, compare)
    total = run.events.records
    return {
        **rates.rate(seen, int(total * WARM_UP), total).rounded,
        "windows_compared": windows,
        "seen": [[round(one.t_ms), one.rows] for one in seen],
    }


def _compare(run: Run, arm: str, output: str, compare: bool) -> int:
    """Compare windows that are closed for sure: a window is sent one or two batches after the one that closes it."""
    if not compare:
        return 0
    closed_by_ms = run.events.reached_ms(run.events.records - 4 * run.batch_rows) - LATENESS_MS
    truth = run.events.per_window(copies=arm == STREAMS)
    found = counts.read_counts(run.place.endpoints.kafka_bootstrap, output)
    windows = counts.compare(arm, found, truth, closed_by_ms, WINDOW_MS)
    if windows == 0:
        run.place.console.say(f"  {arm}: no window is closed, so its counts are not compared: use smaller --batch-rows")
    return windows
