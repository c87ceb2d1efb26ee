"""Where the partition of progress marks ends: asked again while its leader changes, and only then; read up to there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from effectively_once.errors import AccessError, SinkError, UnreachableError
from effectively_once.sinks import kafka_shard
from effectively_once.sinks.kafka_shard import ShardAddress, read_mark, read_seen_mark, read_written_mark
from effectively_once.sinks.publish import Mark

ADDRESS = ShardAddress("b:1", "p", "s", 3)
MARKS = [
    (read_mark, ("read_uncommitted", "read_committed")),
    (read_seen_mark, ("read_committed", "read_committed")),
    (read_written_mark, ("read_uncommitted", "read_uncommitted")),
]
"""What reads a mark, up to which end, and of which records."""
MOVING = [
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
]


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


@dataclass
class Partition:
    """The progress partition of a shard at a broker; notes who reads it.

    Attributes:
        marks: offset -> epoch.
        refuses: codes of the errors that the first questions for its ends are answered with.
        hands_out: what is read of it, in the place of its marks and its end.
        timeout_s: of whoever reads it.

    """

    low: int = 0
    high: int = 0
    marks: dict[int, int] = field(default_factory=dict)
    refuses: list[int] = field(default_factory=list)
    hands_out: list[Read] | None = None
    timeout_s: float = 2.5
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
        assert (where.topic, where.partition, timeout) == ("p.s.progress", 3, self.partition.timeout_s)
        assert self is self.partition.consumers[0], "another one may see another end"
        if self.partition.refuses:
            raise KafkaException(KafkaError(self.partition.refuses.pop(0)))
        return self.partition.low, self.partition.high

    def assign(self, to: list[TopicPartition]) -> None:
        (where,) = to
        assert (where.topic, where.partition) == ("p.s.progress", 3)
        self.starts.append(where.offset)
        found = [Read(at, epoch) for at, epoch in self.partition.marks.items() if at >= where.offset]
        told = self.partition.hands_out
        self._left = [*found, Read(self.partition.high)] if told is None else [*told]

    def poll(self, timeout_s: float) -> Read | None:
        assert timeout_s == self.partition.timeout_s
        return self._left.pop(0) if self._left else None

    def close(self) -> None:
        self.closed = True


Epoch = Callable[..., int | None]


@pytest.fixture
def last_epoch(monkeypatch: pytest.MonkeyPatch) -> Epoch:
    """Return what reads the last mark of a partition, and tells its epoch."""

    def read(there: Partition, how: Callable[[ShardAddress, float], Mark | None] = read_mark) -> int | None:
        monkeypatch.setattr(kafka_shard, "Consumer", there.open)
        found = how(ADDRESS, there.timeout_s)
        return None if found is None else found.epoch

    return read


def test_a_leader_that_is_changing_is_waited_for(last_epoch: Epoch) -> None:
    """A topic that was just made, a broker that has just restarted, or leads since a moment ago."""
    assert last_epoch(Partition(0, 10, {0: 4, 8: 5}, refuses=[*MOVING])) == 5


@pytest.mark.parametrize(
    ("code", "timeout_s", "kind", "says"),
    [
        (KafkaError.NOT_LEADER_FOR_PARTITION, 0.0, UnreachableError, "broker does not answer.*b:1"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, 5.0, SinkError, r"topic p\.s\.progress does not exist, .*b:1"),
        (KafkaError._UNKNOWN_TOPIC, 2.5, SinkError, r"topic p\.s\.progress does not exist, .*b:1"),
        (KafkaError._TRANSPORT, 2.5, UnreachableError, "broker does not answer.*b:1"),
    ],
)
def test_any_other_refusal_and_the_end_of_patience_have_a_name_and_no_mark(
    code: int, timeout_s: float, kind: type[SinkError], says: str, last_epoch: Epoch
) -> None:
    with pytest.raises(kind, match=says):
        last_epoch(Partition(refuses=[code], timeout_s=timeout_s))


def handing_out(*read: Read) -> Partition:
    """Two marks, each with its control record: the committed ones end at offset 4."""
    return Partition(0, 4, hands_out=[*read])


def test_a_new_leader_that_does_not_yet_hand_out_the_last_mark_is_waited_for(last_epoch: Epoch) -> None:
    """Taken for the last one, the mark before it would have the epoch published a second time."""
    assert last_epoch(handing_out(Read(0, 6), Read(2), Read(2, 7), Read(4))) == 7


@pytest.mark.parametrize(("read", "reached"), [([Read(0, 6), Read(2)], 2), ([Read(0)], 0), ([], 0)])
def test_a_new_leader_that_never_hands_it_out_is_an_error_and_no_older_mark(
    read: list[Read], reached: int, last_epoch: Epoch
) -> None:
    """So is an open transaction of somebody else, behind which it lies."""
    where = r"the end of p\.s\.progress partition 3 was not reached"
    with pytest.raises(UnreachableError, match=rf"{where}.*offset {reached} of 4 .b:1.*transaction of somebody"):
        last_epoch(handing_out(*read))


def test_what_was_added_since_the_end_was_asked_for_is_read_too(last_epoch: Epoch) -> None:
    assert last_epoch(handing_out(Read(0, 6), Read(2, 7), Read(4, 8), Read(6))) == 8


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, SinkError, r"topic p\.s\.progress does not exist.*b:1"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AccessError, "b:1"),
    ],
)
def test_an_error_on_the_way_to_the_end_is_no_end(
    code: int, kind: type[SinkError | AccessError], says: str, last_epoch: Epoch
) -> None:
    with pytest.raises(kind, match=says):
        last_epoch(handing_out(Read(0, 6), Read(4, code=code)))


@pytest.mark.parametrize(("how", "levels"), MARKS)
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
    how: Callable[..., Mark | None],
    levels: tuple[str, str],
    last_epoch: Epoch,
) -> None:
    """A tail that was compacted away hides it; that there is none is said of a partition that was read whole."""
    there = replace(there, consumers=[])
    assert last_epoch(there, how) == max(there.marks.values(), default=None)
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
