"""Topics whose leaders are just changing: ends are asked for again, and read up to."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from effectively_once.sinks import leaders
from tests.harness.adapters.topics import Partition, ReadStalledError, Topics
from tests.unit.harness.fake_message import FakeMessage

ENDS = [Partition("t", 0, 4, 4)]
UNKNOWN_TOPIC = KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Topics:
    monkeypatch.setattr(leaders, "WAIT_S", 0.0)
    return Topics("b:1")


@pytest.mark.parametrize(("code", "passes"), [*((code, True) for code in leaders.MOVING), (UNKNOWN_TOPIC, False)])
def test_ends_are_asked_for_again_while_leaders_change_and_any_other_refusal_is_passed_on(
    read: Topics, monkeypatch: pytest.MonkeyPatch, code: int, passes: bool
) -> None:
    codes = [code]

    def ends(_names: list[str]) -> list[Partition]:
        if codes:
            raise KafkaException(KafkaError(codes.pop()))
        return ENDS

    monkeypatch.setattr(read, "_partitions", ends)
    with nullcontext() if passes else pytest.raises(KafkaException):
        assert read.partitions(["t"]) == ENDS


def test_a_read_that_is_stopped_has_no_end(read: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was written down as if the topic had come to its end, and what was not read counted as missing."""
    stop, seen = threading.Event(), []
    monkeypatch.setattr(read, "partitions", lambda _: ENDS)
    monkeypatch.setattr(read, "consumer", lambda *_, **__: Consumed(record(0, 1), record(2, 2), record(4)))
    with pytest.raises(InterruptedError, match="before the ends of topic t"):
        for row in read.read("t", stop):
            seen.append(row["offset"])
            stop.set()
    assert seen == [0]


def test_records_that_are_gone_are_an_error_and_no_end() -> None:
    """The client itself goes on at the end of a partition that does not hold the offset that it is to read."""
    broker = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    broker.produce("t", b"{}", partition=0)
    assert broker.flush(10.0) == 0
    (one,) = broker.list_topics(timeout=10.0).brokers.values()
    consumer = Topics(f"{one.host}:{one.port}").consumer("read_committed", eof=True)
    consumer.assign([TopicPartition("t", 0, 99)])
    message = consumer.poll(10.0)
    consumer.close()
    assert message is not None
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET


class Consumed:
    """Hands out what there is, then nothing."""

    def __init__(self, *messages: FakeMessage) -> None:
        self.messages = list(messages)

    def assign(self, _where: Any) -> None:
        pass

    def poll(self, _timeout_s: float) -> Any:
        return self.messages.pop(0) if self.messages else None

    def close(self) -> None:
        pass


def record(offset: int, epoch: int | None = None) -> FakeMessage:
    """A record of partition 0; without an epoch the end of what its broker hands out."""
    code = None if epoch is not None else KafkaError._PARTITION_EOF
    return FakeMessage(b'{"epoch":1}', place=("t", 0, offset), code=code)


def offsets(read: Topics, monkeypatch: pytest.MonkeyPatch, *messages: FakeMessage) -> list[int]:
    monkeypatch.setattr(read, "partitions", lambda _: ENDS)
    monkeypatch.setattr(read, "consumer", lambda *_, **__: Consumed(*messages))
    return [row["offset"] for row in read.read("t", threading.Event())]


def test_a_new_leader_that_does_not_yet_hand_out_all_is_waited_for(
    read: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else evidence would lack the last records, and blame the sink."""
    assert offsets(read, monkeypatch, record(0, 1), record(2), record(2, 2), record(4)) == [0, 2]


def test_one_that_never_does_leaves_evidence_incomplete(read: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReadStalledError, match="were not reached"):
        offsets(read, monkeypatch, record(0, 1), record(2))
