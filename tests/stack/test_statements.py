"""Statements of gateways in a real topic: read to the end each time, with what is none among them."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from effectively_once.ledger.offsets import Ranges
from effectively_once.sources.statement import Statement, topic_of
from effectively_once.sources.statements import Statements
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from tests.harness.workload.gateways import GATEWAYS, Gateways, publisher
from tests.harness.workload.record import well_formed
from tests.harness.workload.sender import kafka_producer
from tests.stack.conftest import Topic

pytestmark = pytest.mark.stack

OTHER = Statement(source="other", time_ms=1, offsets={})


def test_each_question_hears_what_came_since_the_one_before(stack: EmbeddedStack, topic: Topic) -> None:
    name = f"events-{uuid.uuid4().hex}"
    topic(topic_of(name), 1)
    producer = Producer({"bootstrap.servers": stack.endpoints.kafka_bootstrap})

    def say(*values: bytes) -> None:
        for value in values:
            producer.produce(topic_of(name), value, b"gate")
        assert producer.flush(30) == 0

    def said(time_ms: int, end: int) -> bytes:
        return Statement(source="gate", time_ms=time_ms, offsets={"0": end}).encode()

    heard = Statements(stack.endpoints.kafka_bootstrap, name, ["gate"], 15.0)
    read: Ranges = {name: {"0": (0, 7)}}
    assert heard.take_passed(read) == {}
    say(said(10, 5), b"no statement", said(20, 9))
    assert heard.take_passed(read) == {"gate": 10}
    assert heard.take_passed(read) == {}
    say(said(30, 7))
    assert heard.take_passed(read) == {"gate": 30}
    assert heard.take_passed({name: {"0": (0, 9)}}) == {}, "an earlier time that is covered later tells nothing"
    heard.close()


def test_the_workload_writes_down_when_the_broker_had_a_word(stack: EmbeddedStack, topic: Topic) -> None:
    name, lines = f"events-{uuid.uuid4().hex}", list[dict[str, Any]]()
    topic(topic_of(name), 1)
    heard = Statements(stack.endpoints.kafka_bootstrap, name, GATEWAYS, 15.0)
    publish = publisher(kafka_producer(stack.endpoints.kafka_bootstrap), name)
    gateways = Gateways(0, lambda _: False, publish, SimpleNamespace(write=lines.append))
    record = well_formed(0, "id", "u", 5_000, "x")
    gateways.take(record, GATEWAYS[0])
    gateways.acknowledge(record, GATEWAYS[0], 0, 6)

    def answered() -> bool:
        gateways.state()
        publish(OTHER, lambda: None)
        return len(lines) == 4

    wait_for("the answers", 30, answered)
    assert {line["source"] for line in lines if "delivered_at" in line} == {*GATEWAYS}
    assert heard.take_passed({name: {"0": (0, 7)}}) == dict.fromkeys(GATEWAYS, 5_000)
    heard.close()


def test_a_broker_that_does_not_answer_holds_time_and_stops_nobody() -> None:
    heard = Statements("127.0.0.1:1", "events", ["gate"], 0.5)
    assert heard.take_passed({}) == {}
    heard.close()
