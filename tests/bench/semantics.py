"""What exactly-once costs: S1 at least once on plain Spark, at least once with the catalog, and exactly once.

`python -m tests.bench semantics`: one topic, filled once; the three arms take turns, each on a fresh pipeline. A sample
is rows per second from the end of the first epoch, which warms the JVMs up, to the end of the last.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from effectively_once.settings import PipelineSettings
from infra.cluster.access import CHECKOUT
from infra.embedded.process import Child, wait_for
from infra.embedded.spark import SparkHome
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import default_console, prepare
from tests.bench.facts import Kept, spread
from tests.harness.workload.seeded import Seeded
from tests.harness.workload.shape import Shape

ARMS = {
    "plain Spark, at least once": ("tests.bench.plain_job", "at_least_once"),
    "at least once, with the catalog": ("effectively_once_jobs.user_counts", "at_least_once"),
    "exactly once": ("effectively_once_jobs.user_counts", "exactly_once"),
}
PARTITIONS, SHARDS = 4, 2
EPOCH_ROWS = 50_000
DONE_S, ADMIN_S = 300.0, 30.0
SINKS = ("accepted", "dead_letter", "user_counts")


def measure(records: int, rounds: int) -> str:
    """Run it and return the table."""
    console = default_console()
    toolchain = prepare(console)
    kept = Kept.begun("semantics", records=records, rounds=rounds, epoch_rows=EPOCH_ROWS, shards=SHARDS)
    rates: dict[str, list[float]] = {name: [] for name in ARMS}
    with tempfile.TemporaryDirectory() as scratch, EmbeddedStack(Path(scratch), toolchain) as stack:
        os.environ["AWS_ACCESS_KEY_ID"] = stack.endpoints.s3_access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = stack.endpoints.s3_secret_key
        admin = AdminClient({"bootstrap.servers": stack.endpoints.kafka_bootstrap})
        with console.step(f"{records:,} records into a topic"):
            _created(admin, [NewTopic("bench", PARTITIONS, 1)])
            sent = _fill(stack.endpoints.kafka_bootstrap, records)
        for number in range(rounds):
            for arm in ARMS:
                home = SparkHome(toolchain, stack.endpoints, Path(scratch) / f"{number}-{len(rates[arm])}")
                rate = _once(home, admin, arm, number, sent)
                rates[arm].append(rate)
                kept.sample(arm=arm, round=number, rows_per_s=round(rate), rows=sent)
                console.say(f"  round {number + 1}: {arm}: {rate:,.0f} rows/s")
    text = _table(rates)
    kept.table(text)
    console.say(f"raw samples in {kept.folder.relative_to(CHECKOUT)}")
    return text


def _once(home: SparkHome, admin: AdminClient, arm: str, number: int, sent: int) -> float:
    module, semantics = ARMS[arm]
    at = home.endpoints
    pipeline = f"b{number}_{[*ARMS].index(arm)}"
    compacted = {"cleanup.policy": "compact"}
    _created(admin, [NewTopic(f"{pipeline}.{sink}", SHARDS, 1) for sink in SINKS])
    _created(admin, [NewTopic(f"{pipeline}.{sink}.progress", SHARDS, 1, config=compacted) for sink in SINKS])
    settings = PipelineSettings.model_validate({
        "pipeline": pipeline, "topic": "bench", "kafka_bootstrap": at.kafka_bootstrap, "s3_endpoint": at.s3_endpoint,
        "s3_bucket": at.s3_bucket, "shards": SHARDS, "epoch_rows_max": EPOCH_ROWS, "semantics": semantics,
    })  # fmt: skip
    home.run_dir.mkdir(parents=True, exist_ok=True)
    path, events = home.run_dir / f"{pipeline}.json", home.run_dir / f"{pipeline}.jsonl"
    path.write_text(settings.model_dump_json())
    own = os.pathsep.join([str(home.toolchain.wheel.installed), str(CHECKOUT)])
    driver = home.start(pipeline, module, [str(path)], {"EFFECTIVELY_ONCE_EVENTS": str(events), "PYTHONPATH": own})
    try:
        return _rate(events, driver, sent)
    finally:
        driver.kill()


def _rate(events: Path, driver: Child, sent: int) -> float:
    published: list[dict[str, Any]] = []

    def rows(epochs: list[dict[str, Any]]) -> int:
        return sum(int(one["in"]) for one in epochs)

    def done() -> bool:
        lines = events.read_text().rpartition("\n")[0].splitlines() if events.exists() else []
        told = [json.loads(line) for line in lines]
        published[:] = [one for one in told if one["event"] == "epoch" and one["state"] == "published"]
        return rows(published) >= sent

    wait_for("all records", DONE_S, done, driver)
    first, *rest = published
    return rows(rest) / (int(rest[-1]["t"] - first["t"]) / 1000)


def _fill(bootstrap: str, records: int) -> int:
    """Send the seeded workload with one event in twenty sent twice; how many records that are."""
    producer = Producer({
        "bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, "compression.type": "lz4",
        "queue.buffering.max.messages": 1_000_000,
    })  # fmt: skip
    number = 0
    shape = Shape(records=records, duplicates=0.05, late=0.0, straddling=0.0, malformed=0.0)
    for number, record in enumerate(Seeded(1, shape), 1):
        producer.produce("bench", record.value, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(ADMIN_S) == 0, "the broker did not take all records"
    return number


def _created(admin: AdminClient, topics: list[NewTopic]) -> None:
    for future in admin.create_topics(topics).values():
        future.result(ADMIN_S)


def _table(rates: dict[str, list[float]]) -> str:
    """Medians, and the ratios that matter; both of one run."""
    median = {arm: statistics.median(samples) for arm, samples in rates.items()}
    plain, catalog, exact = (median[arm] for arm in ARMS)
    lines = ["| arm | rows/s, median (from, to) |", "|---|---|"]
    lines += [f"| {arm} | {spread(samples)} |" for arm, samples in rates.items()]
    lines += [
        "", f"exactly once / at least once, with the catalog: {exact / catalog:.2f} (at least 0.95)",
        f"exactly once / plain Spark: {exact / plain:.2f}",
    ]  # fmt: skip
    return "\n".join(lines)
