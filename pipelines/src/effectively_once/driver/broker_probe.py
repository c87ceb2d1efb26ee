"""What a start warns of: settings of topics under which nothing is wrong yet, and a failure or an outage would lose.

A start goes on with a warning. What makes publishing impossible is refused (`preflight.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from effectively_once.driver.metrics import WARNINGS
from effectively_once.errors import SinkError, UnreachableError
from effectively_once.kafka_client import client_config, refusal
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sinks.kafka_shard import ShardAddress

RETENTION, RETENTION_BYTES, MIN_INSYNC = WARNINGS


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the broker has it; `copies` is the least number of replicas that a partition has.

    `in_sync` is the least number of them that are in sync now.
    """

    copies: int
    in_sync: int
    min_insync: int
    retention_ms: int
    retention_bytes: int


@dataclass(frozen=True, slots=True)
class Warned:
    """One thing that a start warns of: its name among WARNINGS, and the three parts of an error."""

    name: str
    what: str
    where: str
    todo: str


def judge(settings: PipelineSettings, facts: Mapping[str, TopicFacts]) -> list[Warned]:
    """Say what to warn of; the facts are those of the input and of the sinks' topics, by name.

    Raises:
        SinkError: a topic of a sink takes no write that all replicas in sync have to acknowledge.

    """
    found = [warned for topic in settings.topics for warned in _warn_of_expiry(settings, topic, facts[topic])]
    for name, topic in facts.items():
        if topic.min_insync > topic.copies and name not in settings.topics:
            raise SinkError(
                f"min.insync.replicas is {topic.min_insync} and a partition has {topic.copies} replicas, so nothing "
                "can be published",
                f"topic {name}",
                "Lower the one, or give the topic more replicas.",
            )
        if topic.min_insync == 1 < topic.copies:
            found.append(
                Warned(
                    MIN_INSYNC,
                    f"one of {topic.copies} replicas alone may acknowledge: what it has goes with it",
                    f"topic {name}",
                    "Set min.insync.replicas to 2.",
                )
            )
    return found


def find_stalled(settings: PipelineSettings, facts: Mapping[str, TopicFacts]) -> list[str]:
    """Name the topics of sinks of which a partition has fewer replicas in sync than a write needs."""
    return [name for name, topic in facts.items() if topic.in_sync < topic.min_insync and name not in settings.topics]


def _warn_of_expiry(settings: PipelineSettings, name: str, topic: TopicFacts) -> Iterator[Warned]:
    where, needed = f"topic {name}", settings.outage_ms + settings.lateness_ms
    if 0 <= topic.retention_ms < needed:
        yield Warned(
            RETENTION,
            f"the input is kept for {topic.retention_ms} ms, an outage of outage_ms {settings.outage_ms} and "
            f"lateness_ms {settings.lateness_ms} need {needed} ms: records would expire unread",
            where,
            f"Raise its retention.ms to {needed} or more, or state a shorter outage_ms.",
        )
    if topic.retention_bytes >= 0 and settings.outage_ms:
        yield Warned(
            RETENTION_BYTES,
            f"the input is kept for {topic.retention_bytes} bytes a partition, however long an outage lasts",
            where,
            "Set its retention.bytes to -1, or watch that the driver's lag stays below it.",
        )


def ask(settings: PipelineSettings, sinks: Sequence[str]) -> dict[str, TopicFacts]:
    """Ask the broker for the facts of the input and of the topics of Kafka sinks.

    Raises:
        UnreachableError: it does not answer.

    """
    names = [*settings.topics]
    for sink in sinks:
        shard = ShardAddress(settings.kafka_bootstrap, settings.pipeline, sink, 0)
        names += [shard.topic, shard.progress]
    admin = AdminClient(client_config(settings.kafka_bootstrap))
    patience_s = settings.start_patience_s
    resources = {name: ConfigResource(ResourceType.TOPIC, name) for name in names}
    try:
        described = admin.describe_topics(TopicCollection(names), request_timeout=patience_s)
        configs = admin.describe_configs(list(resources.values()), request_timeout=patience_s)
        return {name: _facts(described[name].result().partitions, configs[resources[name]].result()) for name in names}
    except KafkaException as error:
        refused = refusal(error.args[0], settings.kafka_bootstrap, "topics and their settings", admin)
        raise refused or UnreachableError(
            f"the Kafka broker does not say how its topics are kept: {error.args[0].str()}",
            settings.kafka_bootstrap,
            "Check that it runs; nothing was lost, start the pipeline again.",
        ) from error


def _facts(partitions: Sequence[object], config: Mapping[str, object]) -> TopicFacts:
    def number(name: str) -> int:
        return int(config[name].value)  # type: ignore[attr-defined]

    return TopicFacts(
        min(len(partition.replicas) for partition in partitions),  # type: ignore[attr-defined]
        min(len(partition.isr) for partition in partitions),  # type: ignore[attr-defined]
        number("min.insync.replicas"),
        number("retention.ms"),
        number("retention.bytes"),
    )
