"""The topics of a pipeline's Kafka sinks as a start meets them: those of the chain, and set as they have to be.

Tables, and the topic of statements, have identities too, by the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from effectively_once.errors import PipelineError, SinkError, SourceError, UnreachableError
from effectively_once.kafka_client import client_config, refusal
from effectively_once.ledger.head import Head
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.pipeline.sinks import MESSAGE_BYTES, RECORD_BYTES, ToKafka
from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.sinks.tables import comment_with

RESTORE = (
    "Put rows and progress topics back to the moment of the chain, then back the chain up and restore it, which takes "
    "the new ids; or give the pipeline another name to publish everything anew."
)
REPLACED = (
    "Put the table and its marks back to the moment of the chain. Where it comes back without its id, say that it is "
    "whole: `{};`. Or give the pipeline another name to publish everything anew."
)
LAKE_REPLACED = (
    "Register the table's last metadata file of before in its catalog, which takes its id back; or give the pipeline "
    "another name to publish everything anew."
)
STATED_ANEW = (
    "What gateways had said is gone, they say it anew. If the topic is theirs, pause the pipeline, start it once "
    "without `sources`, then with them, and resume it."
)
TABLE, LAKE_TABLE, STATEMENTS = "table ", "lake table ", "statements "
"""Before the names of what is no topic of a sink, among the identities that head keeps."""

SIZE = "max.message.bytes"


def needed_bytes(pipeline: Pipeline, sink: str) -> int:
    """Return what the topic of a Kafka sink has to take: its largest message, and a batch of small ones."""
    to, _ = pipeline.sinks.get(sink, (None, None))
    return max(to.message_bytes_max if isinstance(to, ToKafka) else MESSAGE_BYTES, RECORD_BYTES)


class SinkTopics:
    """Rows and progress topics of some sinks."""

    def __init__(self, settings: PipelineSettings, sinks: Sequence[str]) -> None:
        self._settings = settings
        self._shards = [ShardAddress(settings.kafka_bootstrap, settings.pipeline, sink, 0) for sink in sinks]
        self._admin = AdminClient(client_config(settings.kafka_bootstrap))

    def ids(self) -> dict[str, str]:
        """Return the id of every topic, which one made anew under the same name does not have.

        Raises:
            SinkError: a topic does not exist, or lacks a partition for a shard.
            UnreachableError: no broker answers.

        """
        wanted = [name for shard in self._shards for name in (shard.topic, shard.progress)]
        if not wanted:
            return {}
        found = self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._settings.start_patience_s)
        ids: dict[str, str] = {}
        for name, future in found.items():
            partitions = 0
            try:
                described = future.result()
                partitions, ids[name] = len(described.partitions), str(described.topic_id)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._silent(error) from error
            self._refuse_narrow(name, partitions)
        return ids

    def refuse_expiring_marks(self) -> None:
        """Refuse progress topics that delete marks in time; a pipeline that idles long enough would have none.

        Raises:
            SinkError: naming the topic, with the command that mends it.
            UnreachableError: no broker answers.

        """
        for shard in self._shards:
            policy = self.settings_of(shard.progress)["cleanup.policy"]
            refuse_expiring(shard.progress, policy)

    def policies(self) -> dict[str, str]:
        """Return the cleanup policy of each topic of rows. Raises UnreachableError when no broker answers."""
        return {shard.topic: self.settings_of(shard.topic)["cleanup.policy"] for shard in self._shards}

    def refuse_small(self, pipeline: Pipeline) -> None:
        """Refuse topics of rows that take less than the messages of their sink may have: an epoch would stop there.

        Raises:
            SinkError: naming the topic, with the command that mends it.
            UnreachableError: no broker answers.

        """
        for shard in self._shards:
            refuse_small(shard.topic, int(self.settings_of(shard.topic)[SIZE]), needed_bytes(pipeline, shard.sink))

    def settings_of(self, name: str) -> Mapping[str, str]:
        """Return a topic's settings by Kafka's names. Raises UnreachableError when no broker answers."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        try:
            asked = self._admin.describe_configs([resource], request_timeout=self._settings.start_patience_s)
            return {key: str(entry.value) for key, entry in asked[resource].result().items()}
        except KafkaException as error:
            raise self._silent(error) from error

    def _refuse_narrow(self, name: str, partitions: int) -> None:
        shards = self._settings.shards
        if partitions < shards:
            raise SinkError(
                f"a topic of a sink has {partitions} partitions, {shards} shards need one each"
                if partitions
                else "a topic of a sink does not exist",
                f"topic {name}",
                "Run `effectively-once create` with these settings: it adds partitions."
                if partitions
                else f"Create it with {shards} partitions" + (", compacted." if name.endswith(".progress") else "."),
            )

    def _silent(self, error: KafkaException) -> PipelineError:
        bootstrap = self._settings.kafka_bootstrap
        return refusal(error.args[0], bootstrap, "topics of sinks", self._admin) or UnreachableError(
            f"the Kafka broker does not answer: {error.args[0].str()}",
            bootstrap,
            "Check that it runs; nothing was lost, start the pipeline again.",
        )


def refuse_expiring(topic: str, policy: str) -> None:
    """Refuse a progress topic whose cleanup policy is not `compact` alone.

    Raises:
        SinkError: with the command that mends it.

    """
    if policy != "compact":
        raise SinkError(
            f"the topic of progress marks exists with cleanup.policy={policy}, so marks would expire",
            f"topic {topic}",
            f"Run `kafka-configs.sh --bootstrap-server <broker> --alter --topic {topic} "
            "--add-config cleanup.policy=compact`.",
        )


def refuse_small(topic: str, takes: int, needs: int) -> None:
    """Refuse a topic of rows that takes smaller messages than its sink may have.

    Raises:
        SinkError: with the command that mends it.

    """
    if takes < needs:
        raise SinkError(
            f"the topic takes messages of {takes:,} bytes, and those of its sink may have {needs:,}",
            f"topic {topic}",
            f"Run `kafka-configs.sh --bootstrap-server <broker> --alter --topic {topic} --add-config {SIZE}={needs}`, "
            "or declare the sink with a smaller message_bytes_max.",
        )


def same_sinks(head: Head, now: Mapping[str, str]) -> None:
    """Refuse topics and tables that were deleted and created again: what was published is gone, marks or not (R10).

    One that the chain does not know yet is taken as it is; so is every one before the first epoch.

    Raises:
        SinkError: naming both ids.
        SourceError: the same of the topic in which sources say how far they are.

    """
    if head.declared is None and head.last_recorded < 0:
        return
    for name, identity in head.sink_topics.items():
        if now.get(name, identity) != identity:
            raise _made_anew_error(name, identity, now[name])


def _made_anew_error(name: str, was: str, is_: str) -> PipelineError:
    what = f"was deleted and created again: its id was {was} and is {is_}"
    if name.startswith(TABLE):
        schema, _, table = name.removeprefix(TABLE).partition(".")
        statement = comment_with(was, (schema, table)).as_string(None)
        return SinkError(f"the table {what}", name, REPLACED.format(statement))
    if name.startswith(LAKE_TABLE):
        return SinkError(f"the table {what}", name, LAKE_REPLACED)
    if name.startswith(STATEMENTS):
        return SourceError(f"the topic {what}", f"topic {name.removeprefix(STATEMENTS)}", STATED_ANEW)
    return SinkError(f"the topic {what}", f"topic {name}", RESTORE)
