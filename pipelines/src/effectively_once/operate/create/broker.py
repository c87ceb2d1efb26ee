"""The broker: topics are made, and looked at until every partition has a leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from effectively_once.driver.sink_topics import SIZE
from effectively_once.errors import AccessError, SinkError
from effectively_once.kafka_client import client_config, refusal
from effectively_once.operate.create.topics import Found, Topic, refuse_other_shape
from effectively_once.operate.create.wait import REQUEST_TIMEOUT_S, NotYetError

_FORBIDDEN = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
# Beside what the client itself calls retriable: brokers that are up but fewer than copies are asked for.
_LATER = (
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_CONTROLLER,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._SSL,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
)


class Broker(Protocol):
    """What is asked of Kafka. Both raise NotYetError while it does not answer, and PipelineError when it refuses."""

    def topics(self, names: Sequence[str]) -> Mapping[str, Found]:
        """Describe those of the topics that exist."""
        ...

    def make(self, topics: Sequence[Topic], replication: int) -> None:
        """Make topics; one that exists meanwhile is left as it is."""
        ...

    def widen(self, topics: Sequence[Topic]) -> None:
        """Give topics the partitions that they lack; one that has them meanwhile is left as it is."""
        ...


def step(broker: Broker, wanted: Sequence[Topic], replication: int) -> None:
    """Make what is missing, partitions for more shards too, and look at everything once.

    Raises:
        NotYetError: naming topics that are missing and partitions without a leader.
        PipelineError: something is there and is not as it has to be.

    """
    found = broker.topics([topic.name for topic in wanted])
    missing = [topic for topic in wanted if topic.name not in found]
    if missing:
        broker.make(missing, replication)
        raise NotYetError("not yet known to the broker: " + ", ".join(topic.name for topic in missing))
    narrow = [topic for topic in wanted if topic.lacks_partitions(found[topic.name])]
    if narrow:
        broker.widen(narrow)
        raise NotYetError("not yet as wide: " + ", ".join(f"{topic.name} ({topic.partitions})" for topic in narrow))
    leaderless = []
    for topic in wanted:
        refuse_other_shape(topic, found[topic.name])
        without = set(range(topic.partitions)) - found[topic.name].led
        leaderless += [f"{topic.name}/{number}" for number in sorted(without)]
    if leaderless:
        raise NotYetError("without a leader: " + ", ".join(leaderless))


class KafkaCluster:
    """The broker, by its administrator's interface."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({**client_config(bootstrap), "reconnect.backoff.max.ms": 1000})

    def topics(self, names: Sequence[str]) -> Mapping[str, Found]:
        """See Broker."""
        try:
            known = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
            there = [name for name in names if name in known and known[name].error is None]
            of = self._settings(there)
        except KafkaException as error:
            self._fail(error.args[0], "topics")
        return {
            name: Found(
                len(known[name].partitions),
                frozenset(number for number, at in known[name].partitions.items() if at.leader >= 0),
                of[name]["cleanup.policy"],
                int(of[name][SIZE]),
            )
            for name in there
        }

    def make(self, topics: Sequence[Topic], replication: int) -> None:
        """See Broker."""
        wanted = [
            NewTopic(
                topic.name,
                topic.partitions,
                replication,
                config={
                    **dict(topic.config),
                    **({SIZE: str(topic.takes)} if topic.takes else {}),
                    "cleanup.policy": "compact" if topic.compacted else "delete",
                },
            )
            for topic in topics
        ]
        for name, future in self._admin.create_topics(wanted, request_timeout=REQUEST_TIMEOUT_S).items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    self._fail(error.args[0], f"topic {name}")

    def widen(self, topics: Sequence[Topic]) -> None:
        """See Broker."""
        wanted = [NewPartitions(topic.name, topic.partitions) for topic in topics]
        for name, future in self._admin.create_partitions(wanted, request_timeout=REQUEST_TIMEOUT_S).items():
            try:
                future.result()
            except KafkaException as error:
                # Another one may have made them meanwhile: what is there now is looked at next.
                if error.args[0].code() != KafkaError.INVALID_PARTITIONS:
                    self._fail(error.args[0], f"topic {name}")

    def _settings(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        answers = self._admin.describe_configs(asked, request_timeout=REQUEST_TIMEOUT_S)
        return {
            resource.name: {key: str(entry.value) for key, entry in future.result().items()}
            for resource, future in answers.items()
        }

    def _fail(self, error: KafkaError, where: str) -> NoReturn:
        if error.code() in _FORBIDDEN:
            raise AccessError(f"Kafka refuses: {error.str()}", where, "Check the permissions of this client.")
        if (refused := refusal(error, self._bootstrap, where, self._admin)) is not None:
            raise refused
        # A topic may be gone again between two questions.
        if error.retriable() or error.code() in (*_LATER, KafkaError.UNKNOWN_TOPIC_OR_PART):
            raise NotYetError(f"{where}: {error.str()}")
        raise SinkError(f"Kafka refuses: {error.str()}", where, "Correct it, then run this again.")
