"""What is checked before a Spark session is started: a start that cannot succeed says so within seconds.

First everything that can be asked without the chain, so that a start with wrong settings does not stop a driver that
runs. Then head is taken over, before anything else of the chain is read (R1), and what it says is compared with source
and sinks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import structlog
import tenacity

from effectively_once.driver import reshard, spark_state
from effectively_once.driver.broker_probe import TopicFacts, Warned, ask, find_stalled, judge
from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.driver.sink_topics import LAKE_TABLE, STATEMENTS, TABLE, SinkTopics, same_sinks
from effectively_once.driver.table_watch import TableWatch
from effectively_once.driver.transaction_probe import TransactionProbe
from effectively_once.epoch.publishing import database_of, open_lake_table, table_addresses
from effectively_once.ledger import pinned_version, segments
from effectively_once.ledger.head import Head
from effectively_once.ledger.held import Held
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.settings import PipelineSettings, refuse_changed
from effectively_once.sinks import tables
from effectively_once.sinks.hanging import end_hanging
from effectively_once.sinks.kafka_shard import ShardAddress, read_mark, read_seen_mark
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.postgres import read_mark as table_mark
from effectively_once.sinks.publish import Mark, refuse_outside
from effectively_once.sources import retained
from effectively_once.sources.kafka import KafkaSource
from effectively_once.state.live import LiveDeltas
from effectively_once.store.object_store import S3ObjectStore
from effectively_once.store.probe import StoreProbe

if TYPE_CHECKING:
    from effectively_once.sinks.iceberg import IcebergSink

MARK_WAIT_S = 0.3
log = structlog.get_logger()


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
        """Check store, broker, topics and tables, without a look at the chain; return the ids of input and sinks.

        Raises:
            PipelineError: Unreachable, Access, Source or Sink, each with what to do.

        """
        S3ObjectStore(self.settings.bucket, self.settings.start_patience_s).check(self.layout.head)
        topic_ids = self.source.topic_ids()
        topic_ids |= {f"{STATEMENTS}{name}": identity for name, identity in self.source.statements_ids().items()}
        set_to = self.source.topic_settings()
        self.source.refuse_compacted(set_to)
        self.source.warn_of_times(set_to)
        topics = SinkTopics(self.settings, self.job.pipeline.kafka_sinks)
        topic_ids |= topics.ids()
        if self.settings.semantics == "exactly_once":
            topics.refuse_expiring_marks()
        topics.refuse_small(self.job.pipeline)
        for name, shape in self.job.pipeline.tables.items():
            topic_ids[f"{TABLE}{self.settings.pipeline}.{name}"] = tables.check(
                database_of(self.settings), (self.settings.pipeline, name), shape, self.settings.start_patience_s
            )
        for name in self.job.pipeline.lake_tables:
            topic_ids[f"{LAKE_TABLE}{self.settings.pipeline}.{name}"] = self._lake_table(name).identity()
        return topic_ids

    def find_tried(self) -> tuple[str, ...]:
        """Name the tables that rows would be tried on before an epoch is shown; raises as `TableWatch.find_tried`."""
        with closing(TableWatch(self.job, self.settings.start_patience_s)) as watch:
            return watch.find_tried()

    def probe(self) -> None:
        """Try what is rested on and cannot be asked for: it writes, so a check that only reads leaves it out.

        Raises:
            PipelineError: Store, Sink, Unreachable or Access, each with what to do.

        """
        self.probe_store()
        self.probe_transactions()

    def probe_store(self) -> None:
        """Try the object store. Raises what `StoreProbe.run` does."""
        bucket = self.settings.bucket
        store = S3ObjectStore(bucket, self.settings.start_patience_s)
        StoreProbe(store, f"{bucket.endpoint}/{bucket.bucket}", self.layout).run()

    def probe_transactions(self) -> None:
        """Try the broker of the Kafka sinks. Raises what `TransactionProbe.run` and `warnings` do."""
        settings = self.settings
        if settings.semantics != "exactly_once":
            return
        # What no write can mend has its name there; here it would only time out.
        self.warnings()
        copies = max(facts.copies for name, facts in self._topics.items() if name not in settings.topics)
        TransactionProbe(
            settings.kafka_bootstrap,
            settings.pipeline,
            copies,
            settings.transaction_timeout_s,
            settings.start_patience_s,
        ).run()

    def warnings(self) -> list[Warned]:
        """What the topics' settings would lose in an outage.

        Raises:
            PipelineError: Unreachable, or Sink where nothing could be published.

        """
        return judge(self.settings, self._topics)

    def find_stalled(self) -> list[str]:
        """Topics of sinks that take no write until more of their replicas are in sync: a start waits there.

        Raises:
            UnreachableError: no broker answers.

        """
        return find_stalled(self.settings, self._topics)

    @cached_property
    def _topics(self) -> dict[str, TopicFacts]:
        return ask(self.settings, self.job.pipeline.kafka_sinks)

    def accept(
        self,
        head: Head,
        topic_ids: dict[str, str],
        wheel_digest: str,
        runtime: Mapping[str, str] = pinned_version.UNKNOWN,
    ) -> None:
        """Compare the head that is there with settings, source, wheel and runtime, before it is taken over.

        Without a runtime that is not compared: a command may run elsewhere than drivers.

        Raises:
            PipelineError: Settings, Source, Sink or Version, each with what to do.

        """
        refuse_changed(head.settings, reshard.bound_of(self.job), self.layout.head)
        self.source.same_topic(head, topic_ids)
        same_sinks(head, topic_ids)
        pinned_version.same_version(head, wheel_digest, self.layout.head, runtime)
        if reshard.is_due(head, self.job):
            policies = SinkTopics(self.settings, self.job.pipeline.kafka_sinks).policies()
            reshard.refuse_compacted(policies, head, self.job)

    def refuse_lost_input(self, head: Head) -> None:
        """Refuse a chain whose next epoch the topic does not hold whole any more. Raises SourceError."""
        retained.check(head, self.source.first_offsets())

    def chain(self, held: Held) -> LiveDeltas:
        """Compare a head just taken over with sinks and checkpoint; return what state is folded from.

        Raises:
            PipelineError: Sink, Checkpoint, Settings or Chain, each with what to do.

        """
        head = held.head
        self.marks(head)
        last = head.last
        if last is not None:
            Checkpoint(self.store, self.layout, last.lineage).check()
        if self.job.pipeline.stateful is not None:
            spark_state.checkpoint_of(self.store, self.layout, head, self.settings.shards)
        records = run(segments.history(self.layout, head, head.floor), self.store)
        return LiveDeltas(self.layout, self.job.pipeline.all_windows(self.settings.windows), records, head.floor)

    def marks(self, head: Head) -> None:
        """Refuse a sink whose mark does not lie between the last recorded and the declared epoch (R10).

        The shards are those of that epoch: of others nothing is known, and nothing is asked before they begin.

        Raises:
            SinkError: with what was found.

        """
        low, high = head.last_recorded, head.declared.epoch if head.declared else head.last_recorded
        job = self.job.of_shards(head.shards)
        if self.settings.semantics == "exactly_once":
            for address, mark in self._find_marks(low, job.settings.shards):
                refuse_outside(mark, low, high, address)
        for shard in table_addresses(job):
            refuse_outside(table_mark(shard, self.settings.start_patience_s), low, high, str(shard))
        for sink in self.job.pipeline.file_sinks:
            manifests = ManifestSink(self.store, self.layout, sink)
            published = (Mark(n, 0, 0, "") for n in (high + 1, high, low) if n >= 0 and manifests.has(n))
            refuse_outside(next(published, None), low, high, f"sink {sink}")
        for sink in self.job.pipeline.lake_tables:
            refuse_outside(self._lake_table(sink).read_mark(), low, high, f"sink {sink}")

    def _lake_table(self, name: str) -> IcebergSink:
        return open_lake_table(self.job, self.store, name)

    def _find_marks(self, low: int, shards: int) -> Iterator[tuple[str, Mark | None]]:
        """The mark of every shard of the Kafka sinks.

        A broker answers a commit before readers of committed data can see it, so a mark that seems to lag is looked for
        again for a while; then up to the high watermark, for a transaction of somebody else may hide it.
        """
        settings = self.settings
        for sink in self.job.pipeline.kafka_sinks:
            for shard in range(shards):
                address = ShardAddress(settings.kafka_bootstrap, settings.pipeline, sink, shard)
                mark = tenacity.Retrying(
                    retry=tenacity.retry_if_result(lambda found: (found.epoch if found else -1) < low),
                    wait=tenacity.wait_fixed(MARK_WAIT_S),
                    stop=tenacity.stop_after_delay(settings.start_patience_s),
                    retry_error_callback=partial(self._settle_mark, address),
                )(read_seen_mark, address)
                yield str(address), mark

    def _settle_mark(self, address: ShardAddress, _: tenacity.RetryCallState) -> Mark | None:
        end_hanging(address, self.settings.start_patience_s)
        return read_mark(address, self.settings.start_patience_s)
