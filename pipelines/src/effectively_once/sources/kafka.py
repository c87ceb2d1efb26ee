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
from effectively_once.ledger.offsets import Offsets, Ranges
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


Beyond = tuple[str, str]
"""Topic and partition of a range that ends beyond what is known to be committed."""
RETENTION_MS = "retention.ms"
END = 2**63 - 1
"""Beyond every offset."""


class KafkaSource:
    """The input topics of a pipeline; offsets are by topic and partition."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._admin = AdminClient(client_config(settings.kafka_bootstrap))
        self._ends: dict[tuple[str, str], int] = {}
        self._first: Offsets = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """Their names."""
        return self._settings.topics

    def topic_ids(self) -> dict[str, str]:
        """Ask for the topics' ids, which a topic recreated under the same name does not have.

        Raises:
            UnreachableError: no broker answers.
            SourceError: there is no such topic.

        """
        return {name: str(self._describe(name).topic_id) for name in self.topics}

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

    def topic_settings(self) -> dict[str, dict[str, str]]:
        """Return each topic's settings by Kafka's names. Raises what `topic_ids` raises."""
        return {name: self._topic_settings(name) for name in self.topics}

    def _topic_settings(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            described = self._admin.describe_configs([resource], request_timeout=self._settings.start_patience_s)
            return {name: str(entry.value) for name, entry in described[resource].result().items()}
        except KafkaException as error:
            raise self._name_error(error, topic) from error

    def warn_of_times(self, set_to: Mapping[str, Mapping[str, str]]) -> None:
        """Tell of topics that take records with a time that Spark cannot read: one of them would stop every start."""
        bounds = ",".join(f"{name}={value}" for name, value in BOUNDS.items())
        for topic in (name for name, values in set_to.items() if takes_any_time(values)):
            log.warning(
                "the input topic takes records whose Kafka timestamp Spark's source cannot read",
                topic=topic,
                todo="Run `kafka-configs.sh --bootstrap-server <broker> --alter "
                f"--topic {topic} --add-config {bounds}`.",
            )

    def refuse_compacted(self, set_to: Mapping[str, Mapping[str, str]]) -> None:
        """Refuse a compacted topic: a repeat could not read the same records again."""
        for topic in (name for name, values in set_to.items() if "compact" in values["cleanup.policy"]):
            raise SourceError(
                "the topic is compacted, so an epoch could not be read again",
                f"topic {topic}",
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

    def count_degraded(self, topic: str) -> int:
        """Count partitions with a copy that is not in sync, or without a leader. Raises what `topic_ids` raises."""
        partitions = self._describe(topic).partitions
        return sum(one.leader is None or len(one.isr) < len(one.replicas) for one in partitions)

    def first_offsets(self) -> Offsets:
        """Earliest offset of every partition: where a pipeline without a chain begins."""
        self._first = self._offsets(OffsetSpec.earliest())
        return self._first

    def starts(self) -> Offsets:
        """Offset of every partition at which a pipeline without a chain begins, by `begins_at`.

        A partition without a record of that time or later begins at its end. Raises what `topic_ids` raises.
        """
        first, since_ms = self.first_offsets(), self._settings.begins_ms
        if since_ms is None:
            return first
        # The ends before the search: what is sent in between is of that time, and lies behind them.
        last = self.last_offsets()
        found = self.offsets_since(since_ms)
        at = {
            topic: {p: max(start, min(found[topic][p], last[topic][p])) for p, start in parts.items()}
            for topic, parts in first.items()
        }
        log.info("the pipeline begins at a time", begins_at=self._settings.begins_at, at=at, earliest=first)
        return at

    def last_offsets(self) -> Offsets:
        """Offset that the next record of every partition will get; open transactions are below it."""
        return self._offsets(OffsetSpec.latest())

    def offsets_since(self, time_ms: int) -> Offsets:
        """First offset of every partition with a record of that time (ms since 1970) or later; END without one."""
        found = self._offsets(OffsetSpec.for_timestamp(time_ms))
        return {
            topic: {p: offset if offset >= 0 else END for p, offset in parts.items()} for topic, parts in found.items()
        }

    def _offsets(self, which: OffsetSpec) -> Offsets:
        described = {topic: self._describe(topic).partitions for topic in self.topics}
        asked = {topic: [str(partition.id) for partition in parts] for topic, parts in described.items()}
        return self._list_offsets(asked, which)

    def _list_offsets(
        self,
        partitions: Mapping[str, Iterable[str]],
        which: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Offsets:
        patience_s = self._settings.start_patience_s
        wanted = {TopicPartition(topic, int(p)): which for topic, parts in partitions.items() for p in parts}

        def ask() -> Offsets:
            answers = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=patience_s)
            found: Offsets = {topic: {} for topic in partitions}
            for where, future in answers.items():
                found[where.topic][str(where.partition)] = future.result().offset
            return found

        try:
            told: Offsets = ask_again(patience_s, self._look_for_leaders)(ask)
        except KafkaException as error:
            raise self._name_error(error, ", ".join(partitions)) from error
        return told

    def _look_for_leaders(self, _: object) -> None:
        for topic in self.topics:
            self._admin.list_topics(topic, timeout=self._settings.start_patience_s)

    def committed_ends(self, partitions: Mapping[str, Iterable[str]]) -> Offsets:
        """Last stable offset of partitions, by topic: a reader of committed records ends there now.

        Raises:
            UnreachableError: no broker answers, or there is no such partition.
            SourceError: there is no such topic.

        """
        return self._list_offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    def within(self, ranges: Ranges) -> None:
        """Refuse ranges that end beyond what is committed in the topics (R3), or begin before what they hold.

        The earliest offsets are those that were asked for last: a declaration waits for no broker. One that has just
        begun to lead may tell an earlier end than the one before it: it is asked for a while.

        Raises:
            SourceError: naming topic, partition and offsets.
            UnreachableError: no broker answers.

        """
        if lost := self._lost(ranges):
            raise retained.refusal(lost)

        def look() -> list[Beyond]:
            self.look(ranges)
            return self._list_beyond(ranges)

        missing: list[Beyond] = self._list_beyond(ranges) and tenacity.Retrying(
            retry=tenacity.retry_if_result(bool),
            wait=tenacity.wait_fixed(ENDS_WAIT_S),
            stop=tenacity.stop_after_delay(self._settings.start_patience_s),
            retry_error_callback=lambda state: state.outcome and state.outcome.result(),
        )(look)
        for topic, partition in missing:
            raise SourceError(
                f"a range ends at offset {ranges[topic][partition][1]}, and records are committed up to "
                f"{self._ends.get((topic, partition), 0)} alone",
                f"topic {topic} partition {partition}",
                "Where the topic lost records, send them again or restore it. Where it did not, delete the checkpoint "
                "folder of this lineage (never head.json): the driver then continues where the chain ends.",
            )

    def look(self, ranges: Ranges) -> None:
        """Ask once, for `within`, where the partitions end whose ranges are not known to be committed.

        Raises what `committed_ends` raises.
        """
        asked: dict[str, list[str]] = {}
        for topic, partition in self._list_beyond(ranges):
            asked.setdefault(topic, []).append(partition)
        # Of the same topic the end never sinks: what was told before still holds.
        for topic, ends in (self.committed_ends(asked) if asked else {}).items():
            for partition, end in ends.items():
                self._ends[topic, partition] = max(end, self._ends.get((topic, partition), 0))

    def _lost(self, ranges: Ranges) -> Ranges:
        """What was deleted of ranges, by the earliest offsets that were asked for last."""
        known = self._first
        lost = {
            topic: {p: (start, known[topic][p]) for p, (start, _) in spans.items() if start < _at(known, topic, p)}
            for topic, spans in ranges.items()
        }
        return {topic: spans for topic, spans in lost.items() if spans}

    def _list_beyond(self, ranges: Ranges) -> list[Beyond]:
        return [
            (topic, partition)
            for topic, spans in ranges.items()
            for partition, (_, end) in spans.items()
            if end > self._ends.get((topic, partition), 0)
        ]

    def stream(self, spark: SparkSession, starting: Offsets, topic: str | None = None) -> DataFrame:
        """Read without end from given offsets, so many rows a batch at most; one topic, or all."""
        topics, rows_max = self.topics, self._settings.epoch_rows_max
        if topic is not None:
            # Each topic has its share, so that all together are no more than one epoch may have.
            topics, rows_max = (topic,), max(1, rows_max // len(self.topics))
        return (
            self._options(spark.readStream, ("subscribe", ",".join(topics)))
            .option("startingOffsets", json.dumps({name: starting[name] for name in topics}))
            .option("maxOffsetsPerTrigger", str(rows_max))
            .load()
        )

    def between(self, spark: SparkSession, ranges: Ranges, topic: str | None = None) -> DataFrame:
        """Read pinned ranges, of one topic, or of all: how a declared epoch is repeated, whatever Spark has of it."""
        if topic is not None:
            ranges = {topic: ranges[topic]}
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

    def _name_error(self, error: KafkaException, topic: str) -> Exception:
        cause = error.args[0]
        if cause.name() == "UNKNOWN_TOPIC_OR_PART":
            said = topic == topic_of(self._settings.topic)
            what = "topic in which sources say how far they are" if said else "input topic"
            return SourceError(f"the {what} does not exist", f"topic {topic}", "Create it first.")
        bootstrap = self._settings.kafka_bootstrap
        if (refused := refusal(cause, bootstrap, f"topic {topic}", self._admin)) is not None:
            return refused
        return UnreachableError(
            f"the Kafka broker does not answer: {cause.str()}",
            bootstrap,
            "Check that it runs and that the address is right; nothing was lost, start the pipeline again.",
        )


def _at(offsets: Offsets, topic: str, partition: str) -> int:
    return offsets.get(topic, {}).get(partition, 0)
