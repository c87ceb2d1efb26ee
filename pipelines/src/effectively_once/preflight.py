"""What is checked before a Spark session is started: a start that cannot succeed says so within seconds.

First everything that can be asked without the chain, so that a start with wrong settings does not stop a driver that
runs. Then head is taken over, before anything else of the chain is read (R1), and what it says is compared with source
and sinks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tenacity
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from effectively_once.checkpoints import Checkpoint
from effectively_once.errors import SinkError, UnreachableError
from effectively_once.job import Job
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.ledger.records import EpochRecord, Head
from effectively_once.object_store import S3ObjectStore
from effectively_once.publishing import database_of, table_addresses
from effectively_once.settings import PipelineSettings, unchanged
from effectively_once.sinks import tables
from effectively_once.sinks.kafka import ShardAddress, read_mark
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.postgres import read_mark as table_mark
from effectively_once.sources.kafka import KafkaSource

MARK_WAIT_S = 0.3


@dataclass(frozen=True)
class Preflight:
    """The checks of one start."""

    job: Job
    layout: Layout
    store: S3ObjectStore
    source: KafkaSource

    @property
    def settings(self) -> PipelineSettings:
        """Those of the job."""
        return self.job.settings

    def surroundings(self) -> dict[str, str]:
        """Check store, broker and topics, without a look at the chain; return the ids of the input topics.

        Raises:
            PipelineError: Unreachable, Access, Source or Sink, each with what to do.

        """
        S3ObjectStore(self.settings.bucket, self.settings.start_patience_s).check()
        topic_ids = self.source.topic_ids()
        self.source.refuse_compacted()
        self._sink_topics()
        for name, shape in self.job.pipeline.tables.items():
            tables.check(database_of(self.settings), (self.settings.pipeline, name), shape,
                         self.settings.start_patience_s)  # fmt: skip
        return topic_ids

    def accept(self, head: Head, topic_ids: dict[str, str], wheel_digest: str) -> None:
        """Compare the head that is there with settings, source and wheel, before it is taken over.

        Raises:
            PipelineError: Settings, Source or Version, each with what to do.

        """
        unchanged(head.settings, self.job.bound, self.layout.head)
        self.source.same_topic(head, topic_ids)
        chain.same_version(head, wheel_digest, self.layout.head)

    def chain(self, held: chain.Held) -> list[EpochRecord]:
        """Compare a head just taken over with sinks and checkpoint; return its live epoch records.

        Raises:
            PipelineError: Sink, Checkpoint or Chain, each with what to do.

        """
        head = held.head
        self.marks(head)
        last = head.declared or (head.tail[-1] if head.tail else None)
        if last is not None:
            Checkpoint(self.store, self.layout, last.lineage).check()
        return run(chain.history(self.layout, head, head.floor), self.store)

    def _sink_topics(self) -> None:
        """Every sink has its topic and its progress topic, with a partition for each shard."""
        settings = self.settings
        wanted: list[str] = []
        for sink in self.job.pipeline.kafka_sinks:
            shard = ShardAddress(settings.kafka_bootstrap, settings.pipeline, sink, 0)
            wanted += [shard.topic, shard.progress]
        admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap, "log_level": 0})
        found = admin.describe_topics(TopicCollection(wanted), request_timeout=settings.start_patience_s)
        for name, future in found.items():
            try:
                partitions = len(future.result().partitions)
            except KafkaException as error:
                cause = error.args[0]
                if cause.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise UnreachableError(
                        f"the Kafka broker does not answer: {cause.str()}",
                        settings.kafka_bootstrap,
                        "Check that it runs; nothing was lost, start the pipeline again.",
                    ) from error
                partitions = 0
            if partitions < settings.shards:
                raise SinkError(
                    f"a topic of a sink has {partitions} partitions, {settings.shards} shards need one each"
                    if partitions
                    else "a topic of a sink does not exist",
                    f"topic {name}",
                    f"Create it with {settings.shards} partitions"
                    + (", compacted." if name.endswith(".progress") else "."),
                )

    def marks(self, head: Head) -> None:
        """Refuse a sink whose mark does not lie between the last recorded and the declared epoch (R10).

        Raises:
            SinkError: with what was found.

        """
        low, high = head.last_recorded, head.declared.epoch if head.declared else head.last_recorded
        if self.settings.semantics == "exactly_once":
            for address, number in self._marks_found(low):
                _within(low, high, number, address)
        for shard in table_addresses(self.job):
            mark = table_mark(shard, self.settings.start_patience_s)
            _within(low, high, mark.epoch if mark else -1, str(shard))
        for sink in self.job.pipeline.file_sinks:
            manifests = ManifestSink(self.store, self.layout, sink)
            published = (number for number in (high + 1, high, low) if number >= 0 and manifests.has(number))
            _within(low, high, next(published, -1), f"sink {sink}")

    def _marks_found(self, low: int) -> Iterator[tuple[str, int]]:
        """The mark of every shard of the Kafka sinks.

        A broker answers a commit before readers of committed data can see it, so a mark that seems to lag is looked for
        again for a while.
        """
        settings = self.settings
        for sink in self.job.pipeline.kafka_sinks:
            for shard in range(settings.shards):
                address = ShardAddress(settings.kafka_bootstrap, settings.pipeline, sink, shard)
                number = tenacity.Retrying(
                    retry=tenacity.retry_if_result(lambda found: found < low),
                    wait=tenacity.wait_fixed(MARK_WAIT_S),
                    stop=tenacity.stop_after_delay(settings.start_patience_s),
                    retry_error_callback=lambda state: state.outcome.result() if state.outcome else -1,
                )(_mark_of, address)
                yield str(address), number


def _mark_of(address: ShardAddress) -> int:
    mark = read_mark(address)
    return mark.epoch if mark else -1


def _within(low: int, high: int, number: int, where: str) -> None:
    if not low <= number <= high:
        raise SinkError(
            f"progress mark {number} lies outside the chain's {low} to {high}: the sink or the chain was "
            "recreated or restored from a backup",
            where,
            "Restore both from one backup, or give the pipeline another name to publish everything anew.",
        )
