"""The Kafka source: topic identity, start offsets, and bounded reads of pinned ranges (R3)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import structlog
import tenacity
from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from effectively_once.errors import SourceError, UnreachableError
from effectively_once.kafka_client import Access, client_config, refusal
from effectively_once.ledger.head import Head
from effectively_once.ledger.offsets import Ranges
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sinks.leaders import ask_again
from effectively_once.sources import retained
from effectively_once.sources.statement import topic_of
from effectively_once.sources.times import BOUNDS, takes_any_time

if TYPE_CHECKING:
    # The start check asks the topic, and runs where there is no Spark too.
    from pyspark.sql import DataFrame, SparkSession


log = structlog.get_logger()
FETCH = {
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.max.poll.records": "20000",
    "kafka.receive.buffer.bytes": str(4 << 20),
}
"""With Kafka's own values (1 MiB, 500, 64 KiB) a task waited for the broker longer than it worked (ADR 0021)."""

ENDS_WAIT_S = 0.2
"""Between two questions for the end of a partition."""


RETENTION_MS = "retention.ms"
END = 2**63 - 1
"""Beyond every offset."""


class KafkaSource:
    """The input topic of a pipeline."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._admin = AdminClient(client_config(settings.kafka_bootstrap))
        self._ends: dict[str, int] = {}
        self._first: dict[str, int] = {}

    @property
    def topic(self) -> str:
        """Its name."""
        return self._settings.topic

    def topic_ids(self) -> dict[str, str]:
        """Ask for the topic's id, which a topic recreated under the same name does not have.

        Raises:
            UnreachableError: no broker answers.
            SourceError: there is no such topic.

        """
        name = self._settings.topic
        return {name: str(self._describe(name).topic_id)}

    def statements_ids(self) -> dict[str, str]:
        """Ask for the id of the topic in which sources say how far they are. Raises what `topic_ids` raises."""
        name = topic_of(self._settings.topic)
        return {name: str(self._describe(name).topic_id)} if self._settings.sources else {}

    def _describe(self, name: str) -> Any:
        asked = TopicCollection([name])
        try:
            return self._admin.describe_topics(asked, request_timeout=self._settings.start_patience_s)[name].result()
        except KafkaException as error:
            raise self._name_error(error, name) from error

    def topic_settings(self) -> dict[str, str]:
        """Return the topic's settings by Kafka's names. Raises what `topic_ids` raises."""
        resource = ConfigResource(ResourceType.TOPIC, self._settings.topic)
        try:
            described = self._admin.describe_configs([resource], request_timeout=self._settings.start_patience_s)
            return {name: str(entry.value) for name, entry in described[resource].result().items()}
        except KafkaException as error:
            raise self._name_error(error) from error

    def warn_of_times(self, set_to: Mapping[str, str]) -> None:
        """Tell of a topic that takes records with a time that Spark cannot read: one of them would stop every start."""
        if takes_any_time(set_to):
            bounds = ",".join(f"{name}={value}" for name, value in BOUNDS.items())
            log.warning(
                "the input topic takes records whose Kafka timestamp Spark's source cannot read",
                topic=self._settings.topic,
                todo="Run `kafka-configs.sh --bootstrap-server <broker> --alter "
                f"--topic {self._settings.topic} --add-config {bounds}`.",
            )

    def refuse_compacted(self, set_to: Mapping[str, str]) -> None:
        """Refuse a compacted topic: a repeat could not read the same records again."""
        if "compact" in set_to["cleanup.policy"]:
            raise SourceError(
                "the topic is compacted, so an epoch could not be read again",
                f"topic {self._settings.topic}",
                "Set cleanup.policy=delete, or read another topic.",
            )

    def same_topic(self, head: Head, now: dict[str, str]) -> None:
        """Refuse a topic that was deleted and created again: its offsets mean other records.

        Raises:
            SourceError: naming both ids.

        """
        last = head.last
        if last is None:
            return
        for topic, identity in last.topic_ids.items():
            if now.get(topic) != identity:
                raise SourceError(
                    f"the topic was deleted and created again: its id was {identity} and is {now.get(topic)}",
                    f"topic {topic}",
                    "Restore the old topic, or give the pipeline another name to begin anew with this one.",
                )

    def count_degraded(self) -> int:
        """Count partitions with a copy that is not in sync, or without a leader. Raises what `topic_ids` raises."""
        partitions = self._describe(self._settings.topic).partitions
        return sum(one.leader is None or len(one.isr) < len(one.replicas) for one in partitions)

    def first_offsets(self) -> dict[str, int]:
        """Earliest offset of every partition: where a pipeline without a chain begins."""
        self._first = self._offsets(OffsetSpec.earliest())
        return self._first

    def starts(self) -> dict[str, int]:
        """Offset of every partition at which a pipeline without a chain begins, by `begins_at`.

        A partition without a record of that time or later begins at its end. Raises what `topic_ids` raises.
        """
        first, since_ms = self.first_offsets(), self._settings.begins_ms
        if since_ms is None:
            return first
        # The ends before the search: what is sent in between is of that time, and lies behind them.
        last = self.last_offsets()
        found = self.offsets_since(since_ms)
        at = {partition: max(first[partition], min(found[partition], last[partition])) for partition in first}
        log.info("the pipeline begins at a time", begins_at=self._settings.begins_at, at=at, earliest=first)
        return at

    def last_offsets(self) -> dict[str, int]:
        """Offset that the next record of every partition will get; open transactions are below it."""
        return self._offsets(OffsetSpec.latest())

    def offsets_since(self, time_ms: int) -> dict[str, int]:
        """First offset of every partition with a record of that time (ms since 1970) or later; END without one."""
        found = self._offsets(OffsetSpec.for_timestamp(time_ms))
        return {p: offset if offset >= 0 else END for p, offset in found.items()}

    def _offsets(self, which: OffsetSpec) -> dict[str, int]:
        described = self._describe(self._settings.topic)
        return self._list_offsets((partition.id for partition in described.partitions), which)

    def _list_offsets(
        self, partitions: Iterable[int], which: OffsetSpec, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[str, int]:
        patience_s = self._settings.start_patience_s
        wanted = {TopicPartition(self._settings.topic, partition): which for partition in partitions}

        def ask() -> dict[str, int]:
            found = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=patience_s)
            return {str(where.partition): future.result().offset for where, future in found.items()}

        try:
            told: dict[str, int] = ask_again(patience_s, self._look_for_leaders)(ask)
        except KafkaException as error:
            raise self._name_error(error) from error
        return told

    def _look_for_leaders(self, _: object) -> None:
        self._admin.list_topics(self._settings.topic, timeout=self._settings.start_patience_s)

    def committed_ends(self, partitions: Iterable[str]) -> dict[str, int]:
        """Last stable offset of partitions: a reader of committed records ends there now.

        Raises:
            UnreachableError: no broker answers, or there is no such partition.
            SourceError: there is no such topic.

        """
        return self._list_offsets(map(int, partitions), OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    def within(self, ranges: Ranges) -> None:
        """Refuse ranges that end beyond what is committed in the topic (R3), or begin before what it holds.

        The earliest offsets are those that were asked for last: a declaration waits for no broker. One that has just
        begun to lead may tell an earlier end than the one before it: it is asked for a while.

        Raises:
            SourceError: naming topic, partition and offsets.
            UnreachableError: no broker answers.

        """
        spans = ranges.get(self._settings.topic, {})
        lost = {p: (start, self._first[p]) for p, (start, _) in spans.items() if start < self._first.get(p, 0)}
        if lost:
            raise retained.refusal({self._settings.topic: lost})

        def look() -> list[str]:
            self.look(ranges)
            return self._list_beyond(spans)

        missing: list[str] = self._list_beyond(spans) and tenacity.Retrying(
            retry=tenacity.retry_if_result(bool),
            wait=tenacity.wait_fixed(ENDS_WAIT_S),
            stop=tenacity.stop_after_delay(self._settings.start_patience_s),
            retry_error_callback=lambda state: state.outcome and state.outcome.result(),
        )(look)
        for partition in missing:
            raise SourceError(
                f"a range ends at offset {spans[partition][1]}, and records are committed up to "
                f"{self._ends.get(partition, 0)} alone",
                f"topic {self._settings.topic} partition {partition}",
                "Where the topic lost records, send them again or restore it. Where it did not, delete the checkpoint "
                "folder of this lineage (never head.json): the driver then continues where the chain ends.",
            )

    def look(self, ranges: Ranges) -> None:
        """Ask once, for `within`, where the partitions end whose ranges are not known to be committed.

        Raises what `committed_ends` raises.
        """
        if beyond := self._list_beyond(ranges.get(self._settings.topic, {})):
            # Of the same topic the end never sinks: what was told before still holds.
            for partition, end in self.committed_ends(beyond).items():
                self._ends[partition] = max(end, self._ends.get(partition, 0))

    def _list_beyond(self, spans: Mapping[str, tuple[int, int]]) -> list[str]:
        return [partition for partition, (_, end) in spans.items() if end > self._ends.get(partition, 0)]

    def stream(self, spark: SparkSession, starting: dict[str, dict[str, int]]) -> DataFrame:
        """Read without end from given offsets, so many rows a batch at most."""
        return (
            self._options(spark.readStream, ("subscribe", self._settings.topic))
            .option("startingOffsets", json.dumps(starting))
            .option("maxOffsetsPerTrigger", str(self._settings.epoch_rows_max))
            .load()
        )

    def between(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """Read pinned ranges: how a declared epoch is repeated, with or without Spark's checkpoint."""
        starts = {topic: {p: span[0] for p, span in partitions.items()} for topic, partitions in ranges.items()}
        ends = {topic: {p: span[1] for p, span in partitions.items()} for topic, partitions in ranges.items()}
        return (
            # The pinned partitions and no others: the topic may have got more since.
            self._options(
                spark.read, ("assign", json.dumps({topic: [int(p) for p in at] for topic, at in starts.items()}))
            )
            .option("startingOffsets", json.dumps(starts))
            .option("endingOffsets", json.dumps(ends))
            .load()
        )

    def read_retained(self, spark: SparkSession, topic: str) -> DataFrame:
        """Read all that a topic of this broker holds and that is committed, for a batch run."""
        reader = self._options(spark.read, ("subscribe", topic))
        return reader.option("startingOffsets", "earliest").option("endingOffsets", "latest").load()

    def _options(self, reader: Any, what: tuple[str, str]) -> Any:
        # failOnDataLoss: a silent skip is a loss. read_committed: aborted records must not come in (pitfalls 17, 21).
        return (
            reader.format("kafka")
            .option("kafka.bootstrap.servers", self._settings.kafka_bootstrap)
            .option(*what)
            .option("failOnDataLoss", "true")
            .option("kafka.isolation.level", "read_committed")
            .options(**Access.of(os.environ).spark(), **FETCH)
        )

    def _name_error(self, error: KafkaException, topic: str = "") -> Exception:
        cause, topic = error.args[0], topic or self._settings.topic
        if cause.name() == "UNKNOWN_TOPIC_OR_PART":
            what = "input topic" if topic == self._settings.topic else "topic in which sources say how far they are"
            return SourceError(f"the {what} does not exist", f"topic {topic}", "Create it first.")
        bootstrap = self._settings.kafka_bootstrap
        if (refused := refusal(cause, bootstrap, f"topic {topic}", self._admin)) is not None:
            return refused
        return UnreachableError(
            f"the Kafka broker does not answer: {cause.str()}",
            bootstrap,
            "Check that it runs and that the address is right; nothing was lost, start the pipeline again.",
        )
