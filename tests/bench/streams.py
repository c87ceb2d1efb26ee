"""S1, events per user and minute, side by side: ours with dedup, plain Spark with dedup, Kafka Streams without.

`python -m tests.bench streams`: one topic, filled once; the arms take turns, each beginning anew. A sample is rows per
second from the end of a warm-up (a quarter of the rows) until all rows are processed and committed. In the first round
the counts that an arm published are compared with what was sent.
"""

from __future__ import annotations

import argparse
import importlib.util
from math import inf
from pathlib import Path

from confluent_kafka.admin import NewTopic

from tests.bench import s1_streams, table
from tests.bench.facts import Kept, load, spread
from tests.bench.place import HEAP_MIB, LASTING_JVM, MASTERS, open_place
from tests.bench.s1_arms import ARMS, DOES, LATENESS_MS, OURS, SHARDS, SPARK, STREAMS, TOPIC, WARM_UP, Run, run_arm
from tests.bench.s1_events import PARTITIONS, Events, fill
from tests.bench.spark_arm import ROCKSDB

TARGETS = {SPARK: table.Target(at_least=2.0), STREAMS: table.Target(at_least=1.5)}
ENOUGH_S = 3.0
"""Rows are counted when a batch or a transaction ends, about every second: less than this measures mostly that."""
OWN_JOB, PACKAGED_JOB = "tests.bench.s1_job", "effectively_once_jobs.user_counts"


def arguments(given: argparse.ArgumentParser) -> None:
    """Add the options of this case."""
    given.add_argument("--records", type=int, default=4_000_000)
    given.add_argument("--users", type=int, default=100_000)
    given.add_argument("--rounds", type=int, default=5)
    given.add_argument("--batch-rows", type=int, default=500_000, help="rows of our epoch, and of a batch of Spark")
    given.add_argument("--master", choices=sorted(MASTERS), default="local", help="of both Spark arms")
    given.add_argument("--ours", default=None, help=f"module of our job; {OWN_JOB} where it is, else {PACKAGED_JOB}")
    given.add_argument("--conf", nargs="+", default=[], metavar="KEY=VALUE", help="settings of Spark, for both arms")
    given.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    given.add_argument("--resume", type=Path, default=None, help="folder of a measurement that was interrupted")


def measure(asked: argparse.Namespace) -> str:
    """Run it and return the table."""
    events = Events(asked.records, asked.users)
    module = asked.ours or (OWN_JOB if importlib.util.find_spec(OWN_JOB) else PACKAGED_JOB)
    conf = dict(each.split("=", 1) for each in asked.conf)
    kept = Kept.begin(
        "streams",
        asked.resume,
        records=asked.records,
        users=asked.users,
        rounds=asked.rounds,
        ours=module,
        batch_rows=asked.batch_rows,
        warm_up=WARM_UP,
        shards=SHARDS,
        lateness_ms=LATENESS_MS,
        jvm=LASTING_JVM,
        master=MASTERS[asked.master],
        arms=asked.arms,
        streams_threads=s1_streams.THREADS,
        streams_commit_ms=s1_streams.COMMIT_MS,
        streams_cache_mib=s1_streams.CACHE_MIB,
        conf=conf,
        rocksdb=ROCKSDB,
        heap_mib=HEAP_MIB,
    )
    found: dict[str, list[float]] = {arm: [] for arm in asked.arms}
    shortest_s = inf
    with open_place() as place:
        place.create([NewTopic(TOPIC, PARTITIONS, 1)])
        with place.console.step(f"{events.records:,} events into a topic"):
            bytes_each = fill(place.endpoints.kafka_bootstrap, TOPIC, events.values()) / events.records
        for number in range(asked.rounds):
            # Each arm is the first one of a round as often as the others.
            turn = number % len(asked.arms)
            for arm in asked.arms[turn:] + asked.arms[:turn]:
                before = kept.find_sample(arm=arm, round=number)
                if before is None:
                    run = Run(
                        place,
                        events,
                        f"s{number}_{[*ARMS].index(arm)}",
                        asked.batch_rows,
                        MASTERS[asked.master],
                        module,
                        conf,
                    )
                    before = _sample(kept, run, arm, number)
                found[arm].append(before["rows_per_s"])
                shortest_s = min(shortest_s, before["measured_s"])
                place.console.say(f"  round {number + 1}: {arm}: {before['rows_per_s']:,.0f} rows/s")
    text = _table(found, events, bytes_each, module)
    if shortest_s < ENOUGH_S:
        text += f"\n\nTOO SHORT: one arm was measured for {shortest_s:.1f} s only. Take more records."
    return kept.finish(text, "S1: events per user and minute", "rows/s", found)


def _sample(kept: Kept, run: Run, arm: str, number: int) -> dict[str, float]:
    load_before = load()
    # Counts are compared once: reading them back takes as long as a run.
    sample = run_arm(run, arm, compare=number == 0)
    kept.sample(arm=arm, round=number, load_before=load_before, **sample)
    return sample


def _table(found: dict[str, list[float]], events: Events, bytes_each: float, module: str) -> str:
    does = {**DOES, OURS: f"{module}: {DOES[OURS]}"}
    rows = [[arm, spread(samples), does[arm]] for arm, samples in found.items()]
    lines = [
        f"{events.records:,} events of {bytes_each:.0f} bytes, {events.users:,} users, {events.duplicates:.0%} copies, "
        f"{PARTITIONS} partitions, broker on the same machine; {len(next(iter(found.values())))} rounds",
        "",
        table.table(["arm", "rows/s, median (from, to)", "what it does"], rows),
        "",
    ]
    lines += [table.ratio(found, OURS, arm, target) for arm, target in TARGETS.items() if {OURS, arm} <= found.keys()]
    return "\n".join(lines)
