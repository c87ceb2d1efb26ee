"""Flink as an arm: a small Java program in one JVM, exactly once, whose time is by split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infra.embedded.process import Child
from tests.bench.peers import class_path
from tests.bench.place import HEAP_MIB, LASTING_JVM, Place

MAIN = "org.effectivelyonce.bench.CountBySplit"
SLOTS, CHECKPOINT_MS, TRANSACTION_MS = 2, 1_000, 600_000
OPENED = ("java.base/java.lang", "java.base/java.util", "java.base/java.time")
"""What Flink's own start scripts open to its serializers."""


@dataclass(frozen=True)
class Flink:
    """One run: its name, what it reads and writes, and for how long windows (ms) wait for what is out of order (ms)."""

    name: str
    topic: str
    output: str
    window_ms: int
    lateness_ms: int

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
            # A transaction that ends before a checkpoint does is a loss; a broker takes up to 15 minutes.
            "producer.transaction.timeout.ms": TRANSACTION_MS,
            "bench.name": self.name,
            "bench.bootstrap": bootstrap,
            "bench.topic": self.topic,
            "bench.output": self.output,
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
