"""The Kafka source: topic identity, start offsets, and bounded reads of pinned ranges (R3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from effectively_once.errors import SourceError, UnreachableError
from effectively_once.ledger.records import Head, Ranges
from effectively_once.settings import PipelineSettings

if TYPE_CHECKING:
    # The start check asks the topic, and runs where there is no Spark too.
    from pyspark.sql import DataFrame, SparkSession


FETCH = {
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.max.poll.records": "20000",
    "kafka.receive.buffer.bytes": str(4 << 20),
}
"""With Kafka's own values (1 MiB, 500, 64 KiB) a task waited for the broker longer than it worked (ADR 0021)."""


class KafkaSource:
    """The input topic of a pipeline."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap, "log_level": 0})

    def topic_ids(self) -> dict[str, str]:
        """Ask for the topic's id, which a topic recreated under the same name does not have.

        Raises:
            UnreachableError: no broker answers.
            SourceError: there is no such topic.

        """
        name = self._settings.topic
        try:
            described = self._admin.describe_topics(
                TopicCollection([name]), request_timeout=self._settings.start_patience_s
            )[name].result()
        except KafkaException as error:
            raise self._named(error) from error
        return {name: str(described.topic_id)}

    def refuse_compacted(self) -> None:
        """Refuse a compacted topic: a repeat could not read the same records again."""
        resource = ConfigResource(ResourceType.TOPIC, self._settings.topic)
        try:
            described = self._admin.describe_configs([resource], request_timeout=self._settings.start_patience_s)
            policy = described[resource].result()["cleanup.policy"].value
        except KafkaException as error:
            raise self._named(error) from error
        if "compact" in policy:
            raise SourceError(
                "the topic is compacted, so an epoch could not be read again", f"topic {self._settings.topic}",
                "Set cleanup.policy=delete, or read another topic.",
            )  # fmt: skip

    def same_topic(self, head: Head, now: dict[str, str]) -> None:
        """Refuse a topic that was deleted and created again: its offsets mean other records.

        Raises:
            SourceError: naming both ids.

        """
        last = head.declared or (head.tail[-1] if head.tail else None)
        if last is None:
            return
        for topic, identity in last.topic_ids.items():
            if now.get(topic) != identity:
                raise SourceError(
                    f"the topic was deleted and created again: its id was {identity} and is {now.get(topic)}",
                    f"topic {topic}",
                    "Restore the old topic, or give the pipeline another name to begin anew with this one.",
                )

    def first_offsets(self) -> dict[str, int]:
        """Earliest offset of every partition: where a pipeline without a chain begins."""
        name = self._settings.topic
        try:
            described = self._admin.describe_topics(
                TopicCollection([name]), request_timeout=self._settings.start_patience_s
            )[name].result()
            wanted = {TopicPartition(name, p.id): OffsetSpec.earliest() for p in described.partitions}
            found = self._admin.list_offsets(wanted, request_timeout=self._settings.start_patience_s)
            return {str(where.partition): future.result().offset for where, future in found.items()}
        except KafkaException as error:
            raise self._named(error) from error

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

    def retained(self, spark: SparkSession, topic: str) -> DataFrame:
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
            .options(**FETCH)
        )

    def _named(self, error: KafkaException) -> Exception:
        cause = error.args[0]
        if cause.name() == "UNKNOWN_TOPIC_OR_PART":
            return SourceError("the input topic does not exist", f"topic {self._settings.topic}", "Create it first.")
        return UnreachableError(
            f"the Kafka broker does not answer: {cause.str()}", self._settings.kafka_bootstrap,
            "Check that it runs and that the address is right; nothing was lost, start the pipeline again.",
        )  # fmt: skip
