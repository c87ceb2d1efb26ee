"""Kafka Streams as an arm: a small Java program, and how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from infra.embedded.process import Child
from tests.bench.peers import class_path
from tests.bench.place import ADMIN_S, HEAP_MIB, LASTING_JVM, Place
from tests.bench.rates import Seen
from tests.bench.s1_events import PARTITIONS

MAIN = "org.effectivelyonce.bench.CountPerMinute"
BETWEEN, STORE = "by-user", "counts"
COMMIT_MS, THREADS, CACHE_MIB = 1_000, 2, 64


@dataclass(frozen=True)
class Job:
    """One run: its application id, which names its consumer group and its topics, and what it counts.

    `grace_ms` has to be the whole stream: threads read partitions at their own pace, and what one of them reads ahead
    would make the records of the others late.
    """

    name: str
    topic: str
    output: str
    window_ms: int
    grace_ms: int

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
            # Larger than the defaults: each is what a guide to throughput changes first.
            "producer.batch.size": 128 << 10,
            "producer.compression.type": "lz4",
            "consumer.max.poll.records": 5_000,
            "bench.topic": self.topic,
            "bench.output": self.output,
            "bench.partitions": PARTITIONS,
            "bench.window.ms": self.window_ms,
            "bench.grace.ms": self.grace_ms,
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

    def topics(self) -> list[str]:
        """Topics that Kafka Streams makes for itself."""
        return [f"{self.name}-{BETWEEN}-repartition", f"{self.name}-{STORE}-changelog"]

    def progress(self, admin: AdminClient, total: int, now_ms: Callable[[], float]) -> Seen:
        """How many events are counted and committed.

        The position in the topic between the two halves of the program is that number, but for the marks that end
        transactions, a few a second: so all events are there when both halves are at the end of what they read.
        """
        between, _ = self.topics()
        asked = ConsumerGroupTopicPartitions(self.name)
        answer = admin.list_consumer_group_offsets([asked])[self.name].result(ADMIN_S)
        at = {(one.topic, one.partition): max(0, one.offset) for one in answer.topic_partitions or []}
        t_ms = now_ms()
        read = sum(offset for (topic, _), offset in at.items() if topic == self.topic)
        counted = sum(offset for (topic, _), offset in at.items() if topic == between)
        if read < total:
            return Seen(t_ms, min(counted, total - 1))
        parts = [TopicPartition(between, number) for number in range(PARTITIONS)]
        # Uncommitted rows as well: rows whose transaction is just being ended are not yet counted.
        ends = admin.list_offsets({one: OffsetSpec.latest() for one in parts})
        through = all(at.get((one.topic, one.partition), 0) >= end.result(ADMIN_S).offset for one, end in ends.items())
        return Seen(t_ms, total if through else min(counted, total - 1))
