"""Where a measurement runs: broker, object store and drivers on this machine, in JVMs that are meant to last."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.progress import VARIABLE
from infra.cluster.access import CHECKOUT
from infra.console import Console
from infra.embedded.process import Child
from infra.embedded.spark import LASTING_JVM_OPTIONS, SparkHome
from infra.embedded.stack import EmbeddedStack, Endpoints
from infra.toolchain.prepare import Toolchain, default_console, prepare
from tests.bench.s1_events import PARTITIONS, fill
from tests.harness.adapters.topics import LARGE

ADMIN_S = 30.0
SINKS = ("accepted", "dead_letter", "user_counts")
"""Of the jobs that are measured."""
BROKER, STORE = "broker", "object store"
HEAP_MIB = 2048
LASTING_JVM = LASTING_JVM_OPTIONS
LOCAL, CLUSTER = "local[2]", "local-cluster[2,1,{heap}]"
PRODUCER = {"batch.size": 128 << 10, "linger.ms": 100, "compression.type": "lz4"}
"""Of peers: larger than the defaults, each is what a guide to throughput changes first."""
MASTERS = {"local": LOCAL, "cluster": CLUSTER.format(heap=HEAP_MIB)}
"""One JVM with two cores, or driver and two executors in JVMs of their own."""


@dataclass(frozen=True)
class Started:
    """A driver, and the file it announces its epochs or batches in."""

    process: Child
    events: Path


@dataclass(frozen=True)
class Place:
    """What the arms of one measurement share.

    Attributes:
        scratch: removed at the end.
        servers: process ids of broker and object store, by what they are.

    """

    toolchain: Toolchain
    endpoints: Endpoints
    scratch: Path
    console: Console
    admin: AdminClient = field(repr=False)
    servers: Mapping[str, int] = field(default_factory=dict)

    def create(self, topics: Sequence[NewTopic]) -> None:
        """Create topics, and wait until they are there."""
        for future in self.admin.create_topics(list(topics)).values():
            future.result(ADMIN_S)

    def delete(self, topics: Sequence[str]) -> None:
        """Delete topics."""
        for future in self.admin.delete_topics(list(topics)).values():
            future.result(ADMIN_S)

    def fill_topic(self, topic: str, values: Iterable[bytes], says: str, partitions: int = PARTITIONS) -> int:
        """Create a topic, send all values to it, and return how many bytes they have; `says` is what they are."""
        self.create([NewTopic(topic, partitions, 1)])
        with self.console.step(f"{says} into a topic"):
            return fill(self.endpoints.kafka_bootstrap, topic, values, partitions)

    @contextmanager
    def ending(self, process: Child, name: str, topics: Sequence[str] = ()) -> Iterator[None]:
        """End a process of that name with the block, and give the disk back: its topics, and its folders."""
        try:
            yield
        finally:
            process.kill()
            if topics:
                self.delete(topics)
            for folder in (self.scratch / "work" / name, self.scratch / "work" / "spark" / name):
                shutil.rmtree(folder, ignore_errors=True)

    def pipeline(self, name: str, topic: str, job: str, **changes: object) -> PipelineSettings:
        """Settings of a pipeline on this stack, with the sinks of user counts; its topics are created."""
        settings = PipelineSettings.model_validate(
            {
                "pipeline": name,
                "topic": topic,
                "job": job,
                "kafka_bootstrap": self.endpoints.kafka_bootstrap,
                "s3_endpoint": self.endpoints.s3_endpoint,
                "s3_bucket": self.endpoints.s3_bucket,
                **changes,
            }
        )
        compacted = {"cleanup.policy": "compact"}
        self.create([NewTopic(f"{name}.{sink}", settings.shards, 1, config=LARGE) for sink in SINKS])
        self.create([NewTopic(f"{name}.{sink}.progress", settings.shards, 1, config=compacted) for sink in SINKS])
        return settings

    def driver(
        self,
        name: str,
        module: str,
        settings: str,
        *,
        master: str = LOCAL,
        class_path: Sequence[Path] = (),
        conf: Mapping[str, str] | None = None,
    ) -> Started:
        """Start a Python module with a file of settings (JSON), in JVMs for throughput; `conf` is Spark's."""
        folders = (self.toolchain.spark_jars, *class_path)
        jars = ":".join([str(self.toolchain.jvm_jar), *(f"{folder}/*" for folder in folders)])
        paths = {"spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars}
        home = SparkHome(
            self.toolchain,
            self.endpoints,
            self.scratch,
            master=master,
            memory_mib=HEAP_MIB,
            long_lived=True,
            conf={**paths, **(conf or {})},
        )
        return self._start(home, name, module, settings)

    def quick_driver(self, name: str, module: str, settings: str, class_archive: Path | None) -> Started:
        """Start it as `make demo` does: to be up soon."""
        home = SparkHome(self.toolchain, self.endpoints, self.scratch, class_archive)
        return self._start(home, name, module, settings)

    def _start(self, home: SparkHome, name: str, module: str, settings: str) -> Started:
        path, events = self.scratch / f"{name}.json", self.scratch / f"{name}.jsonl"
        path.write_text(settings)
        own = os.pathsep.join([str(self.toolchain.wheel.installed), str(CHECKOUT)])
        return Started(home.start(name, module, [str(path)], {VARIABLE: str(events), "PYTHONPATH": own}), events)


@contextmanager
def open_place() -> Iterator[Place]:
    """Broker and object store, up for the time of the block."""
    console = default_console()
    toolchain = prepare(console)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        scratch = Path(folder)
        with EmbeddedStack(scratch, toolchain, long_lived=True) as stack:
            admin = AdminClient({"bootstrap.servers": stack.endpoints.kafka_bootstrap, "log_level": 0})
            servers = {BROKER: stack.kafka.pid, STORE: stack.object_store.pid}
            yield Place(toolchain, stack.endpoints, scratch, console, admin, servers)
