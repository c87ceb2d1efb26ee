"""Topics whose leaders are just changing: ends are asked for again, and read up to."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from effectively_once.sinks.kafka import MOVING
from tests.harness.adapters import topics
from tests.harness.adapters.topics import Partition, ReadStalledError, Topics
from tests.unit.library.test_kafka_mark import Read

ENDS = [Partition("t", 0, 4, 4)]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Topics:
    monkeypatch.setattr(topics, "MOVING_S", 0.0)
    return Topics("b:1")


def test_ends_are_asked_for_again_while_leaders_change(read: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = list(MOVING)

    def ends(_names: list[str]) -> list[Partition]:
        if codes:
            raise KafkaException(KafkaError(codes.pop()))
        return ENDS

    monkeypatch.setattr(read, "_partitions", ends)
    assert read.partitions(["t"]) == ENDS


def test_any_other_refusal_is_passed_on(read: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(_names: list[str]) -> list[Partition]:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))

    monkeypatch.setattr(read, "_partitions", ends)
    with pytest.raises(KafkaException):
        read.partitions(["t"])


class Consumed:
    """Hands out what there is, then nothing."""

    def __init__(self, *messages: Read) -> None:
        self.messages = list(messages)

    def assign(self, _where: Any) -> None:
        pass

    def poll(self, _timeout_s: float) -> Any:
        return self.messages.pop(0) if self.messages else None

    def close(self) -> None:
        pass


class Record(Read):
    """A record of partition 0; without an epoch the end of what its broker hands out."""

    def partition(self) -> int:
        return 0


def offsets(read: Topics, monkeypatch: pytest.MonkeyPatch, *messages: Record) -> list[int]:
    monkeypatch.setattr(read, "partitions", lambda _: ENDS)
    monkeypatch.setattr(read, "consumer", lambda *_, **__: Consumed(*messages))
    return [row["offset"] for row in read.read("t", threading.Event())]


def test_a_new_leader_that_does_not_yet_hand_out_all_is_waited_for(
    read: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else evidence would lack the last records, and blame the sink."""
    assert offsets(read, monkeypatch, Record(0, 1), Record(2), Record(2, 2), Record(4)) == [0, 2]


def test_one_that_never_does_leaves_evidence_incomplete(read: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReadStalledError, match="were not reached"):
        offsets(read, monkeypatch, Record(0, 1), Record(2))
