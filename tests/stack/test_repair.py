"""Repairing an epoch on the real broker, store and database: together with the next one it shows every row once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from effectively_once import published
from effectively_once.driver.preflight import Preflight
from effectively_once.epoch import publishing
from effectively_once.errors import SinkError
from effectively_once.ledger.layout import Layout
from effectively_once.operate.abandon.fenced import sources
from effectively_once.operate.create.create import create
from effectively_once.pipeline.job import job_of
from effectively_once.sinks.database import DatabaseAddress, connect
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_rows import BEYOND, read_rows
from effectively_once.sinks.kafka_shard import ShardAddress, read_mark
from effectively_once.sinks.publish import Mark
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore
from infra.embedded.postgres import PostgresServer
from infra.embedded.stack import EmbeddedStack
from tests.settings import pipeline_settings
from tests.stack.life_cycle import Command, command_on, documented
from tests.stack.reader import values
from tests.unit.library.broken_epochs import EPOCHS, HIT, SIZE, assert_exact, records, truncating
from tests.unit.library.orders_world import OLD, ORDERS, SHARDS, Killed, Record, World, WorldDriver

pytestmark = pytest.mark.stack

LOOK = "effectively-once repair settings.json"
REPAIR = "effectively-once repair settings.json --yes"
pipeline = ORDERS


class RealWorld(World):
    """The pipeline of the unit tests, with sinks and chain on real servers; `file` are its settings.

    Attributes:
        dies: in which epoch its driver dies, and at which shard of a sink: before it publishes, or with `inside` with
            an open transaction.

    """

    def __init__(self, stack: EmbeddedStack, database: str, name: str, folder: Path) -> None:
        super().__init__(records(5), SIZE, topic=f"in-{name}")
        end = stack.endpoints
        self.settings = pipeline_settings(
            pipeline=name,
            topic=self.topic,
            kafka_bootstrap=end.kafka_bootstrap,
            shards=SHARDS,
            database=database,
            s3_endpoint=end.s3_endpoint,
            s3_bucket=f"b-{name}",
            start_patience_s=5.0,
            job=f"{__name__}:pipeline",
            **ORDERS.defaults,
        )
        self.file = folder / "settings.json"
        self.file.write_text(self.settings.model_dump_json())
        self.job = job_of(self.file)
        create(self.job, replication=1, deadline_s=30, source_partitions=1, say=lambda _: None)
        self.topic_ids = KafkaSource(self.settings).topic_ids()
        self.layout = Layout(name)
        self.store: Any = S3ObjectStore(self.settings.bucket)
        self.dies: tuple[int, str, int] | None = None
        self.inside = False

    def opened(self, sink: str, shard: int, number: int) -> Any:
        def die(what: str) -> None:
            if what == "transaction_open" and dies and self.inside:
                raise Killed

        dies = self.dies == (number, sink, shard)
        if dies and not self.inside:
            raise Killed
        return publishing.open_sink(self.pipeline, self.settings, sink, shard, die)

    def driver(self, wheel: str = OLD) -> WorldDriver:
        # Another process, which has no sink open yet.
        publishing._kafka.cache_clear()
        publishing._table.cache_clear()
        return super().driver(wheel)

    def rows(self) -> dict[str, list[Record]]:
        found: dict[str, list[Record]] = {}
        for name in self.pipeline.kafka_sinks:
            topic = f"{self.layout.pipeline}.{name}"
            texts = (text for shard in range(SHARDS) for text in values(self.settings.kafka_bootstrap, topic, shard))
            found[name] = [json.loads(text) for text in texts]
        with connect(DatabaseAddress(self.settings.database or ""), "test") as session:
            for name, shape in self.pipeline.tables.items():
                columns = ", ".join(f'"{column}"' for column in shape.schema.names)
                query = f'SELECT {columns} FROM "{self.layout.pipeline}"."{name}"'  # noqa: S608 - names of this test
                found[name] = [dict(zip(shape.schema.names, row, strict=True)) for row in session.execute(query)]
        for name in self.pipeline.file_sinks:
            found[name] = published(self.settings.bucket, self.layout.pipeline, name).arrow().to_pylist()
        return found

    def check(self) -> None:
        """Check what a start checks of marks and manifests."""
        Preflight(self.job, self.layout, self.store, KafkaSource(self.settings)).marks(self.head)


@pytest.fixture
def world(stack: EmbeddedStack, database: PostgresServer, pipeline: str, tmp_path: Path) -> RealWorld:
    return RealWorld(stack, database.url, pipeline, tmp_path)


@pytest.fixture
def command(world: RealWorld, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command on this test's pipeline."""
    return command_on(world.file, capsys)


@pytest.mark.parametrize(
    ("sink", "shard", "inside"),
    [
        ("accepted", 1, False),
        ("dead_letter", 0, True),
        pytest.param("per_id", 0, True, marks=pytest.mark.slow),
    ],
)
def test_what_a_truncated_shard_lacks_is_published_by_the_next_epoch(
    world: RealWorld, command: Command, sink: str, shard: int, inside: bool
) -> None:
    """Its driver died between two shards, or left a transaction open; then the command and another driver."""
    world.driver().run(HIT)
    driver = world.driver()
    driver.part = truncating(5, 0)
    world.dies, world.inside = (HIT, sink, shard), inside
    with pytest.raises(Killed):
        driver.finish(driver.declare())
    world.dies = None
    with pytest.raises(SinkError):
        world.driver().start()
    before = world.head
    code, told = command(documented(LOOK))
    assert (code, told[-1]) == (0, "nothing was changed; stop every driver, then run this again with --yes"), told
    assert world.head == before
    name = world.layout.pipeline
    assert re.match(rf"shard 0: accepted shows \d rows \(topic {name}.accepted partition 0 offsets \d+-\d+\)", told[1])
    code, told = command(documented(REPAIR))
    assert (code, told[-1]) == (
        0,
        f"the next driver finishes epoch {HIT} as it is shown, and publishes what it lacks as epoch {HIT + 1}",
    ), told
    world.check()
    world.driver().run(EPOCHS - HIT - 1)
    world.check()
    assert_exact(world)
    assert [record.repairs for record in world.head.tail[HIT : HIT + 2]] == [None, HIT]


def test_rows_of_the_last_epoch_are_found_before_those_that_were_aborted(shard: ShardAddress) -> None:
    """However many there are of these; and other rows than the mark tells of are refused."""
    sink = ShardSink(shard)
    lines = [
        [(None, json.dumps({"source": ["events", 0, n], "of": epoch}).encode()) for n in range(20)]
        for epoch in range(3)
    ]
    for epoch in range(2):
        sink.publish(epoch, 1, lines[epoch])

    def stop(what: str) -> None:
        if what == "transaction_open":
            raise KeyboardInterrupt

    dying = ShardSink(shard, stop)
    with pytest.raises(KeyboardInterrupt):
        dying.publish(2, 1, lines[2] * (BEYOND // 10))
    ShardSink(shard)._open(1)
    mark = read_mark(shard)
    assert mark is not None
    found = read_rows(shard, mark)
    assert found.values == [value for _, value in lines[1]]
    assert found.last - found.first == 19
    told = sources(found.values)
    assert told is not None
    assert told["offset"].to_pylist() == list(range(20))
    with pytest.raises(SinkError, match=r"the topic does not end with the 20 rows of epoch 1"):
        read_rows(shard, Mark(1, 1, 20, "0" * 32))
    assert read_rows(shard, Mark(2, 1, 0, "0" * 32)).values == []
