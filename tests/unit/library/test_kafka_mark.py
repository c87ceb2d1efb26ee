"""Where the partition of progress marks ends: asked again while its leader changes, and only then; read up to there."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from effectively_once.errors import UnreachableError
from effectively_once.sinks.kafka import ShardAddress, _last, ends
from effectively_once.sinks.publish import Mark

SHARD = ShardAddress("b:1", "p", "s", 0)
MOVING = (
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE,
)  # fmt: skip


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
    """A message, or the end of what its broker hands out."""

    def __init__(self, offset: int, epoch: int | None = None) -> None:
        self._offset, self._epoch = offset, epoch

    def error(self) -> KafkaError | None:
        return None if self._epoch is not None else KafkaError(KafkaError._PARTITION_EOF)

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


def test_a_new_leader_that_never_hands_it_out_is_an_error_and_no_older_mark() -> None:
    """So is an open transaction of somebody else, behind which it lies."""
    with pytest.raises(
        UnreachableError, match=r"progress partition 0 was not reached.*offset 2 of 4.*transaction of somebody"
    ):
        mark(Read(0, 6), Read(2))


def test_what_was_added_since_the_end_was_asked_for_is_read_too() -> None:
    found = mark(Read(0, 6), Read(2, 7), Read(4, 8), Read(6))
    assert found is not None
    assert found.epoch == 8


def test_a_partition_without_a_mark_has_none() -> None:
    assert mark(Read(4)) is None
