"""A pipeline with a sink of every kind on real servers, whose drivers are moved step by step. No Spark.

An epoch reads ten offsets of the input's one partition; what it publishes of each is its number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from effectively_once import Pipeline, ToFiles, ToKafka, ToTable
from effectively_once.driver.preflight import Preflight
from effectively_once.ledger import chain
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import Counts, EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.held import Held
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.ledger.rows import Rows
from effectively_once.operate.create.create import create
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.job import job_of
from effectively_once.pipeline.sinks import AnySink
from effectively_once.sinks.database import DatabaseAddress, connect
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import ShardAddress, read_seen_mark
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.postgres import TableAddress, TableSink
from effectively_once.sinks.postgres import read_mark as table_mark
from effectively_once.sinks.publish import Published
from effectively_once.sinks.reader import published
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore
from infra.embedded.stack import EmbeddedStack
from tests.settings import pipeline_settings
from tests.stack.reader import values

ROWS, SHARDS = 10, 2
NUMBER = pa.schema([("n", pa.int64())])
OLD, MENDED = "a" * 64, "b" * 64


def declared(*rows: AnySink) -> Pipeline:
    """Return a pipeline with these sinks."""
    return Pipeline(transform=lambda frame: frame, columns=NUMBER, ids="coordinates", rows=rows)


accepted, rows, archive = ToKafka("accepted"), ToTable("rows", columns=("n",)), ToFiles("archive", columns=("n",))
pipeline = declared(accepted, rows, archive)
narrow = declared(accepted)
files_alone = declared(archive)
timed = Pipeline(transform=lambda frame: frame, columns=NUMBER, rows=(accepted,))
"""As `narrow`, with ids and event times, which settings with `sources` need."""


class Lines:
    """One pipeline with topics, table and bucket of its own; `file` are its settings."""

    def __init__(self, stack: EmbeddedStack, database: str, name: str, folder: Path, job: str = "pipeline") -> None:
        end = stack.endpoints
        self._settings = pipeline_settings(
            pipeline=name,
            topic=f"in-{name}",
            kafka_bootstrap=end.kafka_bootstrap,
            shards=SHARDS,
            database=database,
            s3_endpoint=end.s3_endpoint,
            s3_bucket=f"b-{name}",
            start_patience_s=5.0,
        )
        self.file = folder / "settings.json"
        self.use(job)
        self.create(source_partitions=1)
        self.layout, self.store = Layout(name), S3ObjectStore(self.settings.bucket)

    def use(self, job: str) -> None:
        """Go on with another declaration of this module."""
        self.settings = self._settings.model_copy(update={"job": f"{__name__}:{job}"})
        self.file.write_text(self.settings.model_dump_json())
        self.job = job_of(self.file)

    def create(self, source_partitions: int | None = None) -> list[str]:
        """Make what the pipeline needs; return what was said."""
        told: list[str] = []
        create(self.job, replication=1, deadline_s=30, source_partitions=source_partitions, say=told.append)
        return told

    def head(self) -> Head:
        """Head now."""
        return run(chain.read(self.layout), self.store)

    def start(self, owner: str, wheel: str = OLD) -> LineDriver:
        """Check and take over as a driver's process does. Raises what a start is refused with."""
        preflight = Preflight(self.job, self.layout, self.store, KafkaSource(self.settings))
        ids = preflight.surroundings()

        def accept(head: Head) -> None:
            preflight.accept(head, ids, wheel)

        topic, sinks = self.settings.topic, {name: ids[name] for name in ids if name != self.settings.topic}
        held = run(chain.take_over(self.layout, owner, self.job.bound, accept, sinks), self.store)
        preflight.chain(held)
        return LineDriver(self, held, wheel, {topic: ids[topic]})

    def marks(self) -> dict[str, int]:
        """Epoch of every mark, -1 for none."""
        found = {}
        for sink, shard in self.shards():
            where = self.opened(sink, shard).address
            mark = table_mark(where) if sink in self.job.pipeline.tables else read_seen_mark(where)
            found[f"{sink} {shard}"] = -1 if mark is None else mark.epoch
        return found

    def shards(self) -> Iterator[tuple[str, int]]:
        """Every shard of every sink with marks."""
        for sink in (*self.job.pipeline.kafka_sinks, *self.job.pipeline.tables):
            yield from ((sink, shard) for shard in range(SHARDS))

    def opened(self, sink: str, shard: int) -> Any:
        """Open a sink, with nothing kept."""
        if sink in self.job.pipeline.file_sinks:
            return ManifestSink(self.store, self.layout, sink)
        if sink in self.job.pipeline.tables:
            where = TableAddress(DatabaseAddress(self.settings.database or ""), self.layout.pipeline, sink, shard)
            return TableSink(where, self.job.pipeline.tables[sink])
        return ShardSink(ShardAddress(self.settings.kafka_bootstrap, self.layout.pipeline, sink, shard))

    def visible(self, sink: str) -> list[int]:
        """Return the numbers that a late reader of a sink sees, sorted."""
        if sink in self.job.pipeline.file_sinks:
            return sorted(published(self.settings.bucket, self.layout.pipeline, sink).arrow().to_pydict().get("n", []))
        if sink in self.job.pipeline.tables:
            with connect(DatabaseAddress(self.settings.database or ""), "test") as session:
                found = session.execute(f'SELECT n FROM "{self.layout.pipeline}"."{sink}" ORDER BY n')  # noqa: S608
                return [n for (n,) in found]
        topic = f"{self.layout.pipeline}.{sink}"
        texts = [text for shard in range(SHARDS) for text in values(self.settings.kafka_bootstrap, topic, shard)]
        return sorted(json.loads(text)["n"] for text in texts)

    def lose_marks(self, table: str) -> None:
        """Put the marks of a table back to the beginning."""
        with connect(DatabaseAddress(self.settings.database or ""), "test") as session:
            whose = [self.layout.pipeline, table]
            session.execute("UPDATE effectively_once.progress SET epoch = -1 WHERE pipeline = %s AND sink = %s", whose)

    def assert_exact(self, epochs: int) -> None:
        """Assert that every sink shows what so many epochs read, each number once."""
        for sink in self.job.pipeline.sinks:
            assert self.visible(sink) == list(range(epochs * ROWS)), sink


@dataclass
class LineDriver:
    """A driver of a version; it keeps its sinks open between epochs."""

    of: Lines
    held: Held
    wheel: str
    topic_ids: dict[str, str]
    sinks: dict[tuple[str, int], Any] = field(default_factory=dict)

    def declare(self) -> Declaration:
        """Declare the next epoch, where the chain ends."""
        head = self.held.head
        topic = self.of.settings.topic
        start = head.tail[-1].ranges[topic]["0"][1] if head.tail else 0
        ranges = {topic: {"0": (start, start + ROWS)}}
        pinned = Declaration(
            epoch=head.last_recorded + 1,
            lineage="000001-abcd",
            batch_id=0,
            ranges=ranges,
            topic_ids=self.topic_ids,
            watermark_ms=None,
            previous_watermark_ms=None,
            shards=SHARDS,
            wheel_digest=self.wheel,
            settings_digest="c" * 32,
        )
        self.held = run(chain.declare(self.of.layout, self.held, pinned, None, 0), self.of.store)
        return pinned

    def publish(self, sink: str, shard: int, pinned: Declaration) -> tuple[Rows, Published]:
        """Publish what a shard of a sink shows of an epoch; of files, all of it."""
        start, end = pinned.ranges[self.of.settings.topic]["0"]
        mine = [n for n in range(start, end) if n % SHARDS == shard]
        opened = self.sinks.setdefault((sink, shard), self.of.opened(sink, shard))
        content: Any = pa.table({"n": mine}, NUMBER)
        if sink in self.of.job.pipeline.file_sinks:
            content = pa.table({"n": list(range(start, end))}, NUMBER)
        elif sink not in self.of.job.pipeline.tables:
            content = [] if sink == DEAD_LETTER else [(None, json.dumps({"n": n}).encode()) for n in mine]
        given: tuple[Rows, Published] = opened.publish(pinned.epoch, self.held.head.generation, content)
        return given

    def finish(self) -> None:
        """Publish the declared epoch everywhere, and record it."""
        pinned = self.held.head.declared
        assert pinned is not None
        sinks: dict[str, dict[str, Rows]] = {}
        files = ((sink, 0) for sink in self.of.job.pipeline.file_sinks)
        for sink, shard in (*self.of.shards(), *files):
            sinks.setdefault(sink, {})[str(shard)] = self.publish(sink, shard, pinned)[0]
        start, end = pinned.ranges[self.of.settings.topic]["0"]
        record = EpochRecord(
            **pinned.model_dump(),
            generation=self.held.head.generation,
            max_event_time_ms=None,
            sinks=sinks,
            deltas={},
            counts=Counts.model_validate({"in": end - start, "accepted": end - start}),
        )
        self.held = run(chain.record(self.of.layout, self.held, record), self.of.store)

    def run(self, epochs: int) -> None:
        """Finish what is declared, then declare and publish so many epochs."""
        if self.held.head.declared is not None:
            self.finish()
        for _ in range(epochs):
            self.declare()
            self.finish()
