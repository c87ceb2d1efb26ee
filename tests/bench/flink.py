"""Flink as an arm: a small Java program in one JVM, exactly once, whose time is by split, and how far it has come."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from infra.embedded.process import Child
from tests.bench.peers import class_path
from tests.bench.place import HEAP_MIB, LASTING_JVM, PRODUCER, Place
from tests.bench.positions import read_positions, sum_of
from tests.bench.rates import Seen

MAIN = "org.effectivelyonce.bench.CountBySplit"
SLOTS, CHECKPOINT_MS, TRANSACTION_MS = 2, 1_000, 600_000
OPENED = ("java.base/java.lang", "java.base/java.util", "java.base/java.time")
"""What Flink's own start scripts open to its serializers."""


@dataclass(frozen=True)
class Flink:
    """One run: its name, what it reads and writes, and for how long windows (ms) wait for what is out of order (ms).

    Attributes:
        accepted: topic of the rows that are counted; empty: they are not published.
        drops: whether copies are dropped; an id is known for as long as windows wait.

    """

    name: str
    topic: str
    output: str
    window_ms: int
    lateness_ms: int
    accepted: str = ""
    drops: bool = False

    def properties(self, bootstrap: str, state: Path) -> str:
        """Write the program's settings; a pure function."""
        lines = {
            "flink.parallelism.default": SLOTS,
            "flink.execution.checkpointing.interval": f"{CHECKPOINT_MS} ms",
            "flink.execution.checkpointing.mode": "EXACTLY_ONCE",
            "flink.execution.checkpointing.storage": "filesystem",
            "flink.execution.checkpointing.dir": state.as_uri(),
            # What fails ends the run, which says why.
            "flink.restart-strategy.type": "none",
            # No operator of the program changes what it has handed on.
            "flink.pipeline.object-reuse": "true",
            **{f"producer.{key}": value for key, value in PRODUCER.items()},
            # A transaction that ends before a checkpoint does is a loss; a broker takes up to 15 minutes.
            "producer.transaction.timeout.ms": TRANSACTION_MS,
            "bench.name": self.name,
            "bench.bootstrap": bootstrap,
            "bench.topic": self.topic,
            "bench.output": self.output,
            "bench.accepted": self.accepted,
            "bench.dedup": str(self.drops).lower(),
            "bench.window.ms": self.window_ms,
            "bench.lateness.ms": self.lateness_ms,
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def start(self, place: Place) -> Child:
        """Start it; its log is `logs/<name>.log`."""
        path = place.scratch / f"{self.name}.properties"
        path.write_text(self.properties(place.endpoints.kafka_bootstrap, place.scratch / "work" / self.name))
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
        flags = [f"-Xmx{HEAP_MIB}m", LASTING_JVM, *opened, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        java: list[str | Path] = [place.toolchain.java, *flags, "-cp", class_path("flink"), MAIN, path]
        return Child(self.name, java, place.scratch / "logs" / f"{self.name}.log", cwd=place.scratch)

    def progress(self, admin: AdminClient) -> Seen:
        """How many events are in a checkpoint that is complete: the source commits its positions with each."""
        at = read_positions(admin, self.name)
        return Seen(time.time() * 1000, sum_of(at, self.topic))
