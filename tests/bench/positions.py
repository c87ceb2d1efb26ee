"""How far a consumer group has come by its committed positions, which is how peers tell what they have processed."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.bench.place import ADMIN_S

Positions = dict[tuple[str, int], int]


def read_positions(admin: AdminClient, group: str) -> Positions:
    """Return the group's committed position in each partition it has one in. Raises KafkaException."""
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(ADMIN_S)
    return {(one.topic, one.partition): max(0, one.offset) for one in answer.topic_partitions or []}


def sum_of(positions: Positions, topic: str) -> int:
    """Sum up the positions in a topic."""
    return sum(offset for (name, _), offset in positions.items() if name == topic)


def at_the_end(admin: AdminClient, positions: Positions, topics: Iterable[str], partitions: int) -> bool:
    """Whether the positions are the ends of topics, uncommitted rows included: they are about to be committed."""
    parts = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
    ends = admin.list_offsets({one: OffsetSpec.latest() for one in parts})
    return all(positions.get((one.topic, one.partition), 0) >= end.result(ADMIN_S).offset for one, end in ends.items())
