"""A pipeline on the real broker and the real store, run without Spark: start check, chain, sinks are the product's."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from effectively_once.driver.preflight import Preflight
from effectively_once.ledger import chain
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, run
from effectively_once.ledger.rows import Rows
from effectively_once.operate.create.create import create
from effectively_once.pipeline.job import Job
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import Row, ShardAddress
from effectively_once.sinks.reader import published
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore
from effectively_once_jobs.user_counts import pipeline as user_counts
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from tests.harness.adapters.topics import Topics
from tests.settings import pipeline_settings
from tests.stack.reader import values
from tests.unit.library.ledger_driver import SHARDS, WHEEL, WINDOWS, LedgerDriver, accepted_once, global_counts
from tests.unit.library.names import ACCEPTED, GLOBAL_COUNTS, USER_COUNTS


class Clicks:
    """One pipeline with topics and bucket of its own; `file` are its settings."""

    def __init__(self, stack: EmbeddedStack, pipeline: str, folder: Path) -> None:
        end = stack.endpoints
        self.settings = pipeline_settings(
            pipeline=pipeline,
            topic=f"in-{pipeline}",
            kafka_bootstrap=end.kafka_bootstrap,
            shards=SHARDS,
            s3_endpoint=end.s3_endpoint,
            s3_bucket=f"b-{pipeline}",
            window_ms=WINDOWS.length_ms,
            lateness_ms=WINDOWS.lateness_ms,
            start_patience_s=5.0,
        )
        self.file = folder / "settings.json"
        self.file.write_text(self.settings.model_dump_json())
        self.job = Job(user_counts, self.settings)
        create(self.job, replication=1, deadline_s=30, source_partitions=1)
        self.layout, self.store = Layout(pipeline), S3ObjectStore(self.settings.bucket)

    def head(self) -> Head:
        return run(chain.read(self.layout), self.store)

    def start(self, owner: str) -> LedgerDriver:
        """Check and take over as a driver's process does. Raises what a start is refused with."""
        source, sinks = KafkaSource(self.settings), dict[tuple[str, int], ShardSink]()
        preflight = Preflight(self.job, self.layout, self.store, source)
        ids = preflight.surroundings()

        def accept(head: Head) -> None:
            preflight.accept(head, ids, WHEEL)

        def publish(sink: str, shard: int, epoch: int, generation: int, rows: list[Row]) -> Rows:
            where = ShardAddress(self.settings.kafka_bootstrap, self.settings.pipeline, sink, shard)
            return sinks.setdefault((sink, shard), ShardSink(where)).publish(epoch, generation, rows)[0]

        held = run(chain.take_over(self.layout, owner, self.job.bound, accept), self.store)
        return LedgerDriver(
            self.store,
            self.layout,
            held,
            preflight.chain(held),
            publish=publish,
            topic=self.settings.topic,
            topic_id=ids[self.settings.topic],
        )

    @contextmanager
    def running(self, driver: LedgerDriver) -> Iterator[None]:
        """Publish epochs in a thread, until the end of the block and at least one more; record the last."""
        stop, failures = threading.Event(), list[BaseException]()
        begun = driver.held.head.last_recorded

        def publish() -> None:
            try:
                for step in driver.steps():
                    if step == "published" and stop.is_set():
                        break
                driver.stop()
            except BaseException as error:
                failures.append(error)
                raise

        thread = threading.Thread(target=publish, name="driver")
        thread.start()
        try:
            wait_for("epochs that go on", 30, lambda: driver.held.head.last_recorded > begun + 1 or bool(failures))
            yield
        finally:
            stop.set()
            thread.join(60)
        assert not failures, failures

    @staticmethod
    def wait_for_epochs(driver: LedgerDriver) -> None:
        """Wait until a driver that runs has recorded another epoch, whole from now on."""
        now = driver.held.head.last_recorded
        wait_for("further epochs", 30, lambda: driver.held.head.last_recorded > now + 1)

    def lose_everything(self) -> None:
        """Delete every object of the pipeline: a bucket that is gone."""
        for name in list(self.store.names(f"{self.layout.pipeline}/")):
            self.store.answer(Delete(name))

    def make_topics_anew(self) -> None:
        """Delete the topics of all Kafka sinks, and make empty ones."""
        names = [f"{self.layout.pipeline}.{sink}" for sink in self.job.pipeline.kafka_sinks]
        Topics(self.settings.kafka_bootstrap).delete(tuple(names))
        create(self.job, replication=1, deadline_s=30)

    def assert_published_once(self, epochs: int) -> None:
        """Assert that late readers of every sink see what so many epochs publish, each row once."""
        ids = [json.loads(value)["id"] for value in self._values(ACCEPTED)]
        assert sorted(ids) == accepted_once(epochs)
        counts = [tuple(json.loads(value)) for value in self._values(USER_COUNTS)]
        by_window: Counter[int] = Counter()
        for _, at, number, _ in counts:
            by_window[at] += number
        expected = global_counts(epochs)
        assert len({(user, at) for user, at, _, _ in counts}) == len(counts)
        assert by_window == Counter({at: number for _, at, number in expected})
        rows = published(self.settings.bucket, self.layout.pipeline, GLOBAL_COUNTS)
        assert [
            (epoch, row["window_start_ms"], row["count"]) for epoch, table in rows for row in table.to_pylist()
        ] == expected

    def _values(self, sink: str) -> list[str]:
        where = ShardAddress(self.settings.kafka_bootstrap, self.settings.pipeline, sink, 0)
        return [value for shard in range(SHARDS) for value in values(where.bootstrap, where.topic, shard)]
