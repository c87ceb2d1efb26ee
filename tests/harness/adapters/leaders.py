"""Which broker leads which partition of a pipeline, and elections that change it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import tenacity
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from effectively_once.kafka_client import client_config
from tests.harness.adapters.transactions import ToolFailedError

TIMEOUT_S, POLL_S = 5.0, 0.05
TRANSACTIONS, PROGRESS = "__transaction_state", ".progress"
NOT_NEEDED = "ELECTION_NOT_NEEDED"
NOBODY = -1
Where = tuple[str, int]
"""A partition: topic and number."""
Reorder = Callable[[Mapping[Where, Sequence[int]]], None]
"""Puts the copies of partitions into another order; see `tests.harness.adapters.reassignment`."""


@dataclass(frozen=True, slots=True)
class Led:
    """A partition as the brokers describe it.

    Attributes:
        leader: number of a broker; NOBODY where there is none.
        copies: brokers that have one; the first is to lead when it can.
        in_sync: those of them that may lead.
    """

    leader: int
    copies: tuple[int, ...]
    in_sync: frozenset[int]

    @property
    def other(self) -> int | None:
        """Who can lead instead: the next in sync after the leader, so that one move after the other goes around."""
        if self.leader not in self.copies:
            return None
        at = self.copies.index(self.leader)
        around = (*self.copies[at + 1 :], *self.copies[:at])
        return next((one for one in around if one in self.in_sync), None)


@dataclass
class Leaders:
    """The brokers that lead the partitions of a pipeline: of its source, its sinks and their marks, its transactions.

    Every method raises KafkaException when the brokers do not answer.

    Attributes:
        bootstrap: `host:port,...` of the brokers.
        pipeline: its identity.
        topic: its source.
        shards: of it.
        reorder: changes who is preferred.
    """

    bootstrap: str
    pipeline: str
    topic: str
    shards: int
    reorder: Reorder
    _admin: AdminClient = field(init=False)

    def __post_init__(self) -> None:
        """Connect to nobody yet."""
        # `elect_leaders` of confluent-kafka 2.16.1 takes none of the time-outs that it documents: this one bounds it.
        self._admin = AdminClient(
            {
                **client_config(self.bootstrap),
                "log_level": 0,
                "socket.timeout.ms": round(TIMEOUT_S * 1000),
            }
        )

    def led(self) -> dict[Where, Led]:
        """The partitions of the pipeline."""
        topics = {
            name: {
                number: Led(one.leader, tuple(one.replicas), frozenset(one.isrs))
                for number, one in topic.partitions.items()
            }
            for name, topic in self._admin.list_topics(timeout=TIMEOUT_S).topics.items()
        }
        return of_pipeline(topics, self.pipeline, self.topic, self.shards)

    def behind(self) -> list[str]:
        """Partitions of all topics that have a copy which is not in sync, by name."""
        topics = self._admin.list_topics(timeout=TIMEOUT_S).topics
        return sorted(
            text((name, number))
            for name, topic in topics.items()
            for number, one in topic.partitions.items()
            if len(one.isrs) < len(one.replicas)
        )

    def prefer(self, wanted: Mapping[Where, int], led: Mapping[Where, Led]) -> None:
        """Have other brokers preferred; who leads stays the same. Raises ToolFailedError."""
        self.reorder(
            {where: (broker, *(one for one in led[where].copies if one != broker)) for where, broker in wanted.items()}
        )

        def former() -> bool:
            return any(one.copies[0] != wanted[where] for where, one in self.led().items() if where in wanted)

        still = tenacity.Retrying(
            retry=tenacity.retry_if_result(bool),
            wait=tenacity.wait_fixed(POLL_S),
            stop=tenacity.stop_after_delay(TIMEOUT_S),
            retry_error_callback=lambda _: True,
        )(former)
        if still:
            raise ToolFailedError("copies of partitions are still in their former order")

    def elect(self, partitions: Collection[Where]) -> dict[Where, str]:
        """Have the preferred brokers lead; why not, for those that do not."""
        if not partitions:
            return {}
        # The broker answers when its controller has decided, which every broker learns some moments later.
        asked = self._admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(*where) for where in partitions])
        answers = asked.result(2 * TIMEOUT_S).items()
        named = {(at.topic, at.partition): error for at, error in answers if error is not None}
        return {where: name for where, error in named.items() if (name := _name(error)) != NOT_NEEDED}

    def epochs(self, partitions: Collection[Where]) -> dict[Where, int]:
        """Leader epochs: a number that every change of a partition's leader raises.

        A leader of some moments refuses to answer: KafkaException, ask again.
        """
        if not partitions:
            return {}
        # Asked with the leaders that the client knows: it does not notice by itself that there are others.
        self._admin.list_topics(timeout=TIMEOUT_S)
        wanted = {TopicPartition(*where): OffsetSpec.latest() for where in partitions}
        found = self._admin.list_offsets(wanted, request_timeout=TIMEOUT_S)
        return {(at.topic, at.partition): answer.result(2 * TIMEOUT_S).leader_epoch for at, answer in found.items()}


def of_pipeline(topics: Mapping[str, Mapping[int, Led]], pipeline: str, source: str, shards: int) -> dict[Where, Led]:
    """Those of all partitions that a pipeline uses: its source, its sinks with their marks, its transactions."""
    own = [name for name in topics if name == source or name.startswith(f"{pipeline}.")]
    found = {(name, number): one for name in sorted(own) for number, one in topics[name].items()}
    log = topics.get(TRANSACTIONS, {})
    if log:
        sinks = [name.removesuffix(PROGRESS) for name in own if name.endswith(PROGRESS)]
        used = {partition_of(f"{sink}.{shard}", len(log)) for sink in sinks for shard in range(shards)}
        found |= {(TRANSACTIONS, number): log[number] for number in sorted(used)}
    return found


def partition_of(transactional_id: str, count: int) -> int:
    """The partition of the transaction log that a transactional id is kept in: Java's hash of a string, modulo."""
    hashed = 0
    for one in transactional_id:
        hashed = (31 * hashed + ord(one)) & 0xFFFFFFFF
    if hashed >= 1 << 31:
        hashed -= 1 << 32
    return (0 if hashed == -(1 << 31) else abs(hashed)) % count


def wanted_of(led: Mapping[Where, Led]) -> dict[Where, int]:
    """Who is to lead instead, of every partition that somebody else can lead."""
    return {where: other for where, one in led.items() if (other := one.other) is not None}


def text(where: Where) -> str:
    """A partition as history names it."""
    return f"{where[0]}/{where[1]}"


def _name(error: object) -> str:
    # Documented as an exception, and is the error itself.
    found = error.args[0] if isinstance(error, KafkaException) else error
    return str(getattr(found, "name", lambda: found)())
