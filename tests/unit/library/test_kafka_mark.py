"""Where the partition of progress marks ends: asked again while its leader changes, and only then; read up to there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from effectively_once.errors import AccessError, SinkError, UnreachableError
from effectively_once.sinks import kafka_shard
from effectively_once.sinks.kafka_shard import ShardAddress, _last, ends, read_mark, read_seen_mark, read_written_mark
from effectively_once.sinks.publish import Mark

SHARD = ShardAddress("b:1", "p", "s", 0)
MARKS = [
    (read_mark, ("read_uncommitted", "read_committed")),
    (read_seen_mark, ("read_committed", "read_committed")),
    (read_written_mark, ("read_uncommitted", "read_uncommitted")),
]
"""What reads a mark, up to which end, and of which records."""
MOVING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
)


class FakeConsumer:
    """Fails with each of the codes in turn, then answers."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def get_watermark_offsets(self, _where: TopicPartition, timeout: float) -> tuple[int, int]:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return 3, 9


def test_a_leader_that_is_changing_is_waited_for() -> None:
    """A topic that was just made, a broker that has just restarted, or leads since a moment ago."""
    consumer = FakeConsumer(*MOVING)
    assert ends(consumer, TopicPartition("t", 0), 5.0) == (3, 9)


@pytest.mark.parametrize(
    ("code", "timeout_s"), [(KafkaError.NOT_LEADER_FOR_PARTITION, 0.0), (KafkaError.UNKNOWN_TOPIC_OR_PART, 5.0)]
)
def test_any_other_refusal_and_the_end_of_patience_are_passed_on(code: int, timeout_s: float) -> None:
    """The caller names them."""
    with pytest.raises(KafkaException):
        ends(FakeConsumer(code, code), TopicPartition("t", 0), timeout_s)


class Read:
    """A message, or the end of what its broker hands out, or another error."""

    def __init__(self, offset: int, epoch: int | None = None, code: int = KafkaError._PARTITION_EOF) -> None:
        self._offset, self._epoch, self._code = offset, epoch, code

    def error(self) -> KafkaError | None:
        return None if self._epoch is not None else KafkaError(self._code)

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return json.dumps({"epoch": self._epoch, "generation": 1, "rows": 2, "digest": "d"}).encode()


class Polled:
    """Hands out what there is, then nothing."""

    def __init__(self, *read: Read) -> None:
        self.read = list(read)

    def poll(self, _timeout_s: float) -> Any:
        return self.read.pop(0) if self.read else None


def mark(*read: Read) -> Mark | None:
    """The last mark of a partition whose committed records end at offset 4: two marks, each with its control record."""
    return _last(cast("Consumer", Polled(*read)), 4, 0.1, SHARD)


def test_a_new_leader_that_does_not_yet_hand_out_the_last_mark_is_waited_for() -> None:
    """Taken for the last one, the mark before it would have the epoch published a second time."""
    found = mark(Read(0, 6), Read(2), Read(2, 7), Read(4))
    assert found is not None
    assert found.epoch == 7


@pytest.mark.parametrize(("read", "reached"), [([Read(0, 6), Read(2)], 2), ([Read(0)], 0), ([], 0)])
def test_a_new_leader_that_never_hands_it_out_is_an_error_and_no_older_mark(read: list[Read], reached: int) -> None:
    """So is an open transaction of somebody else, behind which it lies."""
    with pytest.raises(
        UnreachableError, match=rf"progress partition 0 was not reached.*offset {reached} of 4.*transaction of somebody"
    ):
        mark(*read)


def test_what_was_added_since_the_end_was_asked_for_is_read_too() -> None:
    found = mark(Read(0, 6), Read(2, 7), Read(4, 8), Read(6))
    assert found is not None
    assert found.epoch == 8


def test_a_partition_without_a_mark_has_none() -> None:
    assert mark(Read(4)) is None


@pytest.mark.parametrize(
    ("code", "kind"),
    [(KafkaError.UNKNOWN_TOPIC_OR_PART, SinkError), (KafkaError.TOPIC_AUTHORIZATION_FAILED, AccessError)],
)
def test_an_error_on_the_way_to_the_end_is_no_end(code: int, kind: type[SinkError]) -> None:
    says = r"topic p\.s\.progress does not exist.*b:1" if kind is SinkError else "b:1"
    with pytest.raises(kind, match=says):
        mark(Read(0, 6), Read(4, code=code))


@dataclass
class Partition:
    """The progress partition of a shard at a broker, with marks at some offsets; notes who reads it."""

    low: int
    high: int
    marks: dict[int, int]
    refuses: int | None = None
    consumers: list[Reading] = field(default_factory=list)

    def open(self, settings: dict[str, Any]) -> Reading:
        self.consumers.append(Reading(self, settings))
        return self.consumers[-1]


class Reading:
    """A consumer of it."""

    def __init__(self, partition: Partition, settings: dict[str, Any]) -> None:
        self.partition, self.settings, self.closed = partition, settings, False
        self.starts: list[int] = []
        self._left: list[Read] = []

    def get_watermark_offsets(self, where: TopicPartition, timeout: float) -> tuple[int, int]:
        assert (where.topic, where.partition, timeout) == ("p.s.progress", 3, 2.5)
        if self.partition.refuses is not None:
            raise KafkaException(KafkaError(self.partition.refuses))
        return self.partition.low, self.partition.high

    def assign(self, to: list[TopicPartition]) -> None:
        (where,) = to
        assert (where.topic, where.partition) == ("p.s.progress", 3)
        self.starts.append(where.offset)
        found = [Read(at, epoch) for at, epoch in self.partition.marks.items() if at >= where.offset]
        self._left = [*found, Read(self.partition.high)]

    def poll(self, timeout_s: float) -> Read | None:
        assert timeout_s == 2.5
        return self._left.pop(0) if self._left else None

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("read", "levels"), MARKS)
@pytest.mark.parametrize(
    ("there", "starts"),
    [
        (Partition(0, 10, {0: 4, 8: 5}), [0]),
        (Partition(0, 0, {}), [0]),
        (Partition(190, 200, {}), [190]),
        (Partition(136, 200, {}), [136]),
        (Partition(0, 200, {100: 4, 136: 5}), [136]),
        (Partition(0, 200, {100: 4, 135: 5}), [136, 0]),
        (Partition(7, 200, {}), [136, 7]),
    ],
)
def test_the_last_mark_is_looked_for_among_the_last_offsets_and_then_from_the_first(
    there: Partition,
    starts: list[int],
    read: Callable[..., Mark | None],
    levels: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tail that was compacted away hides it; that there is none is said of a partition that was read whole."""
    there = replace(there, consumers=[])
    monkeypatch.setattr(kafka_shard, "Consumer", there.open)
    found = read(ShardAddress("b:1", "p", "s", 3), 2.5)
    assert (found and found.epoch) == max(there.marks.values(), default=None)
    asking, reading = there.consumers
    assert (asking.starts, reading.starts) == ([], starts)
    assert asking.closed
    assert reading.closed
    for consumer, level in zip((asking, reading), levels, strict=True):
        assert consumer.settings == {
            "bootstrap.servers": "b:1",
            "group.id": "effectively-once.shards",
            "enable.auto.commit": False,
            "isolation.level": level,
            "enable.partition.eof": True,
            # Where an offset is gone a client of Kafka begins somewhere else without a word, unless it is told not to.
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (KafkaError._UNKNOWN_TOPIC, SinkError, r"topic p\.s\.progress does not exist, .*b:1"),
        (KafkaError._TRANSPORT, UnreachableError, "broker does not answer.*b:1"),
    ],
)
def test_a_partition_that_cannot_be_asked_has_a_name_and_no_mark(
    code: int, kind: type[SinkError], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_shard, "Consumer", Partition(0, 0, {}, refuses=code).open)
    with pytest.raises(kind, match=says):
        read_mark(ShardAddress("b:1", "p", "s", 3), 2.5)


def test_a_partition_that_is_not_read_to_its_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_shard, "Consumer", Partition(0, 9, {}).open)
    monkeypatch.setattr(Reading, "poll", lambda *_: None)
    with pytest.raises(UnreachableError, match=r"the end of p\.s\.progress partition 3 was not reached.*b:1"):
        read_mark(ShardAddress("b:1", "p", "s", 3), 2.5)
