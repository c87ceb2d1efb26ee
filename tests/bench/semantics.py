"""What exactly-once costs: S1 at least once on plain Spark, at least once with the catalog, and exactly once.

`python -m tests.bench semantics`: one topic, filled once; the three arms take turns, each on a fresh pipeline. A sample
is rows per second from the end of the first epoch, which warms the JVMs up, to the end of the last.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from tests.bench import rates, table
from tests.bench.facts import Kept, load, spread
from tests.bench.place import ADMIN_S, LASTING_JVM, MASTERS, Place, opened
from tests.harness.workload.seeded import Seeded
from tests.harness.workload.shape import Shape

PLAIN, CATALOG, EXACTLY = "plain Spark, at least once", "at least once, with the catalog", "exactly once"
ARMS = {
    PLAIN: ("tests.bench.plain_job", "at_least_once"),
    CATALOG: ("effectively_once_jobs.user_counts", "at_least_once"),
    EXACTLY: ("effectively_once_jobs.user_counts", "exactly_once"),
}
TOPIC, PARTITIONS, SHARDS = "bench", 4, 2
EPOCH_ROWS = 50_000
DONE_S = 300.0


def arguments(given: argparse.ArgumentParser) -> None:
    """Add the options of this case."""
    given.add_argument("--records", type=int, default=600_000)
    given.add_argument("--rounds", type=int, default=5)
    given.add_argument("--epoch-rows", type=int, default=EPOCH_ROWS)
    given.add_argument("--master", choices=sorted(MASTERS), default="cluster")
    given.add_argument("--resume", type=Path, default=None, help="folder of a measurement that was interrupted")


def measure(asked: argparse.Namespace) -> str:
    """Run it and return the table."""
    kept = Kept.begun(
        "semantics", asked.resume, records=asked.records, rounds=asked.rounds, epoch_rows=asked.epoch_rows,
        shards=SHARDS, master=MASTERS[asked.master], jvm=LASTING_JVM,
    )  # fmt: skip
    found: dict[str, list[float]] = {name: [] for name in ARMS}
    with opened() as place:
        with place.console.step(f"{asked.records:,} records into a topic"):
            place.created([NewTopic(TOPIC, PARTITIONS, 1)])
            sent = _fill(place.endpoints.kafka_bootstrap, asked.records)
        for number in range(asked.rounds):
            for arm in ARMS:
                sample = kept.done(arm=arm, round=number)
                if sample is None:
                    load_before = load()
                    rate = _once(place, arm, number, asked, sent)
                    sample = {"rows_per_s": round(rate.rows_per_s), "measured_s": round(rate.measured_s, 1)}
                    kept.sample(arm=arm, round=number, **sample, rows=sent, load_before=load_before)
                found[arm].append(sample["rows_per_s"])
                place.console.say(f"  round {number + 1}: {arm}: {sample['rows_per_s']:,.0f} rows/s")
    text = _table(found)
    return kept.finished(text, "What exactly-once costs", "rows/s", found)


def _once(place: Place, arm: str, number: int, asked: argparse.Namespace, sent: int) -> rates.Rate:
    module, semantics = ARMS[arm]
    name = f"b{number}_{[*ARMS].index(arm)}"
    settings = place.pipeline(name, TOPIC, shards=SHARDS, epoch_rows_max=asked.epoch_rows, semantics=semantics)
    started = place.driver(name, module, settings.model_dump_json(), master=MASTERS[asked.master])
    try:
        seen = rates.until_all(lambda: rates.epochs(started.events), sent, DONE_S, started.process)
        return rates.rate(seen, seen[0].rows, sent)
    finally:
        started.process.kill()


def _fill(bootstrap: str, records: int) -> int:
    """Send the seeded workload with one event in twenty sent twice; how many records that are."""
    producer = Producer({
        "bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, "compression.type": "lz4",
        "queue.buffering.max.messages": 1_000_000,
    })  # fmt: skip
    number = 0
    shape = Shape(records=records, duplicates=0.05, late=0.0, straddling=0.0, malformed=0.0)
    for number, record in enumerate(Seeded(1, shape), 1):
        producer.produce(TOPIC, record.value, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(ADMIN_S) == 0, "the broker did not take all records"
    return number


def _table(found: dict[str, list[float]]) -> str:
    """Medians, and the ratios that matter; both of one run."""
    lines = [table.table(["arm", "rows/s, median (from, to)"], [[arm, spread(each)] for arm, each in found.items()])]
    lines += [
        "", table.ratio(found, EXACTLY, CATALOG, table.Target(at_least=0.95)),
        table.ratio(found, EXACTLY, PLAIN, table.Target(at_least=0.8)),
    ]  # fmt: skip
    return "\n".join(lines)
