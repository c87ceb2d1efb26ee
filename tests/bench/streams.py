"""Kafka Streams as an arm: a small Java program, and how far it has come."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from infra.embedded.process import Child
from tests.bench.peers import class_path
from tests.bench.place import HEAP_MIB, LASTING_JVM, PRODUCER, Place
from tests.bench.positions import at_the_end, read_positions, sum_of
from tests.bench.rates import Seen
from tests.bench.s1_events import PARTITIONS

MAIN = "org.effectivelyonce.bench.CountPerMinute"
BY_ID, BY_USER, IDS, COUNTS = "by-id", "by-user", "ids", "counts"
COMMIT_MS, THREADS, CACHE_MIB = 1_000, 2, 64


@dataclass(frozen=True)
class Job:
    """One run: its application id, which names its consumer group and its topics, and what it does.

    Attributes:
        grace_ms: has to be the whole stream: threads read partitions at their own pace, and what one of them reads
            ahead would make the records of the others late.
        accepted: topic of the rows that are counted; empty: they are not published.
        dedup_ms: how long an id is known; 0: copies are not dropped.
        partitions: of the input, and so of the topics in between.

    """

    name: str
    topic: str
    output: str
    window_ms: int
    grace_ms: int
    accepted: str = ""
    dedup_ms: int = 0
    partitions: int = PARTITIONS

    def properties(self, bootstrap: str, state: Path) -> str:
        """Write the program's settings; a pure function."""
        lines = {
            "application.id": self.name,
            "bootstrap.servers": bootstrap,
            "state.dir": str(state),
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": COMMIT_MS,
            "num.stream.threads": THREADS,
            "statestore.cache.max.bytes": CACHE_MIB << 20,
            "replication.factor": 1,
            "consumer.auto.offset.reset": "earliest",
            "consumer.max.poll.records": 5_000,
            **{f"producer.{key}": value for key, value in PRODUCER.items()},
            "bench.topic": self.topic,
            "bench.output": self.output,
            "bench.accepted": self.accepted,
            "bench.partitions": self.partitions,
            "bench.window.ms": self.window_ms,
            "bench.grace.ms": self.grace_ms,
            "bench.dedup.ms": self.dedup_ms,
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def start(self, place: Place) -> Child:
        """Start it; its log is `logs/<name>.log`."""
        path = place.scratch / f"{self.name}.properties"
        path.write_text(self.properties(place.endpoints.kafka_bootstrap, place.scratch / "work" / self.name))
        flags = [f"-Xmx{HEAP_MIB}m", LASTING_JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        java: list[str | Path] = [place.toolchain.java, *flags, "-cp", class_path("streams"), MAIN, path]
        log = place.scratch / "logs" / f"{self.name}.log"
        return Child(self.name, java, log, cwd=place.scratch)

    @property
    def between(self) -> list[str]:
        """Topics that rows go through, in their order; Kafka Streams makes them for itself."""
        names = [BY_ID, BY_USER] if self.dedup_ms else [BY_USER]
        return [f"{self.name}-{name}-repartition" for name in names]

    def topics(self) -> list[str]:
        """All topics that Kafka Streams makes for itself."""
        stores = [IDS, COUNTS] if self.dedup_ms else [COUNTS]
        return [*self.between, *(f"{self.name}-{store}-changelog" for store in stores)]

    def progress(self, admin: AdminClient, total: int, counted: int) -> Seen:
        """How many of `total` events are counted and committed, of which `counted` come to the last topic in between.

        The position there is that number, but for the marks that end transactions, a few a second: so all events are
        there when all parts of the program are at the end of what they read.
        """
        at = read_positions(admin, self.name)
        t_ms = time.time() * 1000
        rows = min(sum_of(at, self.between[-1]) * total // counted, total - 1)
        through = sum_of(at, self.topic) >= total and at_the_end(admin, at, self.between, self.partitions)
        return Seen(t_ms, total if through else rows)
