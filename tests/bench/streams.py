"""S1, events per user and minute, side by side: ours with dedup, plain Spark with dedup, Kafka Streams without.

`make bench CASE=streams`: one topic, filled once; the arms take turns, each beginning anew. A sample is rows per
second from the end of a warm-up (a quarter of the rows) until all rows are processed and committed. In the first round
the counts that an arm published are compared with what was sent.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from math import inf
from typing import Annotated

import typer
from pydantic import Field

from tests.bench import s1_streams, table
from tests.bench.facts import Kept, spread
from tests.bench.options import Master, Rounds, among, in_turn, pick
from tests.bench.place import HEAP_MIB, LASTING_JVM, MASTERS, open_place
from tests.bench.s1_arms import ARMS, DOES, LATENESS_MS, OURS, SHARDS, SPARK, STREAMS, TOPIC, WARM_UP, Run, run_arm
from tests.bench.s1_events import PARTITIONS, Events
from tests.bench.spark_arm import ROCKSDB

TARGETS = {SPARK: table.Target(at_least=2.0), STREAMS: table.Target(at_least=1.5)}
ENOUGH_S = 3.0
"""Rows are counted when a batch or a transaction ends, about every second: less than this measures mostly that."""
OWN_JOB, PACKAGED_JOB = "tests.bench.s1_job", "effectively_once_jobs.user_counts"


class Asked(Rounds):
    """S1 against plain Spark with dedup and Kafka Streams."""

    records: Annotated[int, typer.Option(min=1)] = 4_000_000
    users: Annotated[int, typer.Option(min=1)] = 100_000
    batch_rows: Annotated[int, typer.Option(min=1, help="Rows of our epoch, and of a batch of Spark.")] = 500_000
    ours: Annotated[
        str | None, typer.Option(help=f"Module of our job; {OWN_JOB} where it is, else {PACKAGED_JOB}.")
    ] = None
    conf: Annotated[list[str], typer.Option(metavar="KEY=VALUE...", help="Settings of Spark in both arms.")] = Field([])
    arms: Annotated[list[str], among(ARMS), typer.Option(metavar="ARM...")] = Field([*ARMS])
    master: Master = "local"


def measure(asked: Asked) -> str:
    """Run it and return the table."""
    events = Events(asked.records, asked.users)
    module = asked.ours or (OWN_JOB if importlib.util.find_spec(OWN_JOB) else PACKAGED_JOB)
    conf = dict(each.split("=", 1) for each in asked.conf)
    kept = Kept.begin(
        "streams",
        asked.resume,
        **pick(asked, "records", "users", "rounds", "batch_rows", "arms"),
        ours=module,
        warm_up=WARM_UP,
        shards=SHARDS,
        lateness_ms=LATENESS_MS,
        jvm=LASTING_JVM,
        master=MASTERS[asked.master],
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
        bytes_each = place.fill_topic(TOPIC, events.values(), f"{events.records:,} events") / events.records
        for number in range(asked.rounds):
            for arm in in_turn(asked.arms, number):
                name = f"s{number}_{[*ARMS].index(arm)}"
                run = Run(place, events, name, asked.batch_rows, MASTERS[asked.master], module, conf)
                # Counts are compared once: reading them back takes as long as a run.
                sample = kept.take(partial(run_arm, run, arm, compare=number == 0), arm=arm, round=number)
                found[arm].append(sample["rows_per_s"])
                shortest_s = min(shortest_s, sample["measured_s"])
                place.console.say(f"  round {number + 1}: {arm}: {sample['rows_per_s']:,.0f} rows/s")
    text = _table(found, events, bytes_each, module)
    if shortest_s < ENOUGH_S:
        text += f"\n\nTOO SHORT: one arm was measured for {shortest_s:.1f} s only. Take more records."
    return kept.finish(text, "S1: events per user and minute", "rows/s", found)


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
