"""One pipeline under test: its topics, its records, its drivers as processes, and what it left behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from minio import Minio

from effectively_once.ledger import chain, segments
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.operate.create.create import create
from effectively_once.pipeline.job import Job, job_of
from effectively_once.sources.times import BOUNDS
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from infra.console import Console
from infra.embedded.class_archive import class_archive
from infra.embedded.process import Child, wait_for
from infra.embedded.spark import SparkHome
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import CHECKOUT, Toolchain
from tests.harness.adapters.topics import LARGE
from tests.harness.sends import Send

MODULE = "effectively_once_jobs.user_counts"
KAFKA_SINKS = ("accepted", "dead_letter", "user_counts")
PARTITIONS, SHARDS = 4, 2
COMPACTED = {"cleanup.policy": "compact"}
ADMIN_S, PROCESSED_S, COMMITTED_S = 60.0, 240.0, 180.0


@dataclass(frozen=True)
class Outgoing:
    """A record to be sent, and what the reference has to know about it; `reason` is None for a well-formed one."""

    value: bytes
    partition: int
    id: str | None = None
    user: str | None = None
    event_time_ms: int | None = None
    crc: int | None = None
    reason: str | None = None


class Pipeline:
    """A user_counts pipeline of its own on the shared stack.

    Attributes:
        command: a module that its drivers run, and words before the settings file.

    """

    command: tuple[str, ...] = (MODULE,)

    def __init__(
        self, toolchain: Toolchain, endpoints: Endpoints, folder: Path, name: str, changes: Mapping[str, object]
    ) -> None:
        self.name, self.topic, self.endpoints, self.folder = name, f"events.{name}", endpoints, folder
        self.admin = AdminClient(self.client)
        self.store = S3ObjectStore(BucketAddress(endpoints.s3_endpoint, endpoints.s3_bucket))
        self.layout = Layout(name)
        self.sends: list[Send] = []
        self._home = SparkHome(toolchain, endpoints, folder, class_archive(toolchain, Console()))
        self._events = folder / "events.jsonl"
        self._drivers: list[Child] = []
        self.settings: dict[str, object] = {
            "pipeline": name,
            "topic": self.topic,
            "job": MODULE,
            "kafka_bootstrap": endpoints.kafka_bootstrap,
            "s3_endpoint": endpoints.s3_endpoint,
            "s3_bucket": endpoints.s3_bucket,
            "shards": SHARDS,
            **changes,
        }

    @property
    def client(self) -> dict[str, object]:
        """How the test itself reaches the broker."""
        return {"bootstrap.servers": self.endpoints.kafka_bootstrap, "log_level": 0}

    @property
    def own_env(self) -> Mapping[str, str]:
        """What all its drivers need of their environment."""
        return {}

    def create_topics(self) -> None:
        topics = [NewTopic(self.topic, PARTITIONS, 1, config=BOUNDS)]
        for sink in KAFKA_SINKS:
            topics.append(NewTopic(f"{self.name}.{sink}", SHARDS, 1, config=LARGE))
            topics.append(NewTopic(f"{self.name}.{sink}.progress", SHARDS, 1, config=COMPACTED))
        for created in self.admin.create_topics(topics).values():
            created.result(ADMIN_S)

    def recreate(self, topic: str, partitions: int) -> None:
        """Delete a topic and create it again under the same name, with no records."""
        self.delete(topic)
        config = COMPACTED if topic.endswith(".progress") else BOUNDS
        wait_for(
            f"{topic} created again", ADMIN_S, lambda: self._created(NewTopic(topic, partitions, 1, config=config))
        )

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(ADMIN_S)
        wait_for(f"{topic} gone", ADMIN_S, lambda: topic not in self.admin.list_topics(timeout=ADMIN_S).topics)

    def _created(self, topic: NewTopic) -> bool:
        self.admin.create_topics([topic])[topic.topic].result(ADMIN_S)
        return True

    def send(self, records: Sequence[Outgoing]) -> None:
        """Send records and keep the acknowledged ones, with their coordinates, as ground truth."""
        producer = Producer({**self.client, "linger.ms": 5, "acks": "all"})
        before = len(self.sends)
        for record in records:
            producer.produce(
                self.topic, record.value, partition=record.partition, on_delivery=self._acknowledged(record)
            )
            producer.poll(0)
        producer.flush(ADMIN_S)
        assert len(self.sends) - before == len(records), "not every record was acknowledged"

    def _acknowledged(self, record: Outgoing) -> Callable[[object, Message], None]:
        def keep(error: object, message: Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            kind = "fresh" if record.reason is None else "malformed"
            content = (record.id, record.user, record.event_time_ms, record.crc)
            value = record.value.decode(errors="replace")
            self.sends.append(Send(*content, kind, record.reason, self.topic, record.partition, offset, value))

        return keep

    def raw(self, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
        """Back up a topic: partition, key and value of every committed record."""
        consumer = Consumer(
            {
                **self.client,
                "group.id": "backup",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        found: list[tuple[int, bytes | None, bytes | None]] = []
        partitions = len(self.admin.list_topics(topic, timeout=ADMIN_S).topics[topic].partitions)
        try:
            consumer.assign([TopicPartition(topic, shard, OFFSET_BEGINNING) for shard in range(partitions)])
            ended: set[int | None] = set()
            while len(ended) < partitions:
                message = consumer.poll(ADMIN_S)
                assert message is not None, f"{topic}: its end was not reached; is a transaction open?"
                error, partition = message.error(), message.partition()
                if error is None:
                    assert partition is not None
                    found.append((partition, message.key(), message.value()))
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(partition)
        finally:
            consumer.close()
        return found

    def restore(self, topic: str, saved: Sequence[tuple[int, bytes | None, bytes | None]]) -> None:
        """Write a backup into an empty topic."""
        producer = Producer({**self.client, "acks": "all"})
        for partition, key, value in saved:
            producer.produce(topic, value, key, partition=partition)
        assert producer.flush(ADMIN_S) == 0, f"{topic} was not restored"

    def overwrite(self, key: str, content: bytes) -> None:
        """Put an object without any condition, as somebody who does not know the protocol."""
        end = self.endpoints
        client = Minio(
            end.s3_endpoint.split("://")[1], end.s3_access_key, end.s3_secret_key, secure=False, region="us-east-1"
        )
        client.put_object(end.s3_bucket, key, BytesIO(content), len(content))

    def write_settings(self, changes: Mapping[str, object] | None = None, content: bytes | None = None) -> Path:
        """Write the settings file: these with changes, or any content."""
        path = self.folder / f"settings-{len(list(self.folder.glob('settings-*')))}.json"
        path.write_bytes(json.dumps({**self.settings, **(changes or {})}).encode() if content is None else content)
        return path

    def start(self, settings: Path | None = None, env: Mapping[str, str] | None = None) -> Child:
        """Start the job's process."""
        module, *words = self.command
        driver = self._home.start(
            f"driver-{len(self._drivers)}",
            module,
            [*words, str(settings or self.write_settings())],
            {"EFFECTIVELY_ONCE_EVENTS": str(self._events), **self.own_env, **(env or {})},
        )
        self._drivers.append(driver)
        return driver

    def end(self) -> None:
        """End every driver that still runs."""
        for driver in self._drivers:
            if driver.running():
                driver.kill()

    def events(self, event: str, **fields: object) -> list[dict[str, Any]]:
        """Return what drivers and executors announced so far, filtered."""
        if not self._events.exists():
            return []
        whole = self._events.read_text().rpartition("\n")[0]
        found = (json.loads(line) for line in whole.splitlines())
        wanted = {"event": event, **fields}
        return [line for line in found if all(line.get(name) == value for name, value in wanted.items())]

    def published_rows(self) -> int:
        """Return how many input rows lie in published epochs, repeats counted once."""
        return sum({line["epoch"]: line["in"] for line in self.events("epoch", state="published")}.values())

    def wait_processed(self, driver: Child) -> None:
        """Wait until every record sent lies in a published epoch."""
        wait_for(f"{self.name}: all records", PROCESSED_S, lambda: self.published_rows() >= len(self.sends), driver)

    def wait_committed(self, driver: Child) -> None:
        """Wait until everything sent is processed, and `commits/n` is there for each batch of the newest checkpoint."""
        self.wait_processed(driver)
        wait_for(f"{self.name}: commits of the last batch", COMMITTED_S, self._is_committed, driver)

    def _is_committed(self) -> bool:
        folder = self.layout.checkpoint("")
        names = set(self.store.names(folder))
        # The names of lineages begin with their generation.
        newest = self.layout.checkpoint(max(names).removeprefix(folder).partition("/")[0])
        planned = (name for name in names if name.startswith(f"{newest}/offsets/"))
        return all(name.replace("/offsets/", "/commits/") in names for name in planned)

    def head(self) -> Head:
        return run(chain.read(self.layout), self.store)

    def epochs(self, head: Head | None = None) -> list[EpochRecord]:
        """Return every epoch that a head has recorded, that of now unless another one is given."""
        return run(segments.history(self.layout, head or self.head()), self.store)


class Commanded(Pipeline):
    """One whose job is no part of the wheel: an operator's commands make its topics and start its drivers."""

    command = ("effectively_once", "run")
    source_partitions = PARTITIONS

    @property
    def own_env(self) -> Mapping[str, str]:
        return {"PYTHONPATH": f"{self._home.toolchain.wheel.installed}:{CHECKOUT}"}

    @property
    def job(self) -> Job:
        """What the settings file names."""
        return job_of(self.write_settings())

    def create_topics(self) -> None:
        create(self.job, replication=1, deadline_s=30, source_partitions=self.source_partitions)
