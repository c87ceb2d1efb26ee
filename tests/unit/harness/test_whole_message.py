"""A reader writes down all that a message has, and what is the same in every right one only by having looked."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Producer, TopicPartition

from tests.harness.adapters.topics import Topics
from tests.harness.adapters.whole_message import whole
from tests.harness.checkers.whole_row import faults_in, fields_of
from tests.harness.schemas import SinkSchema
from tests.harness.sends import crc_of_row
from tests.unit.harness.fake_message import FakeMessage

LINE = '{"id":"é","n":1}'.encode()
SCHEMA = SinkSchema(kind="kafka", fields={"id": "text", "n": "integer"}, key="id")


@pytest.mark.parametrize(
    ("message", "beside"),
    [
        (FakeMessage(LINE), {"key": None}),
        (FakeMessage(LINE, "é".encode()), {"key": "é"}),
        (FakeMessage(LINE, b"\xff"), {"key": "/w==", "key_encoding": "base64"}),
        (FakeMessage(LINE, headers_=[]), {"key": None}),
        (
            FakeMessage(LINE, headers_=[("a", b"b"), ("a", b"\xff"), ("c", None)]),
            {"key": None, "headers": [["a", "b"], ["a", "/w==", "base64"], ["c", None]]},
        ),
        (FakeMessage(LINE, type_=TIMESTAMP_LOG_APPEND_TIME), {"key": None, "timestamp": "LogAppendTime"}),
        (FakeMessage(LINE, type_=TIMESTAMP_NOT_AVAILABLE), {"key": None, "timestamp": "none"}),
    ],
)
def test_what_stands_beside_the_value_is_kept(message: FakeMessage, beside: dict[str, Any]) -> None:
    assert whole(message) == {"id": "é", "n": 1, "message": beside}


@pytest.mark.parametrize(
    ("content", "fields", "kept"),
    [
        (b'{"id": "a","n":1}', {"id": "a", "n": 1}, {"value": '{"id": "a","n":1}'}),
        (b'{"id":"b","id":"a","n":1}', {"id": "a", "n": 1}, {"value": '{"id":"b","id":"a","n":1}'}),
        (b'{"id":"\\u00e9","n":1}', {"id": "é", "n": 1}, {"value": '{"id":"\\u00e9","n":1}'}),
        (b'{"id":"a","n":1}\n', {"id": "a", "n": 1}, {"value": '{"id":"a","n":1}\n'}),
        (b'{"id":"a","n":1.0e0}', {"id": "a", "n": 1.0}, {"value": '{"id":"a","n":1.0e0}'}),
        (b"[1]", {}, {"value": "[1]"}),
        (b"\xff", {}, {"value": "/w==", "value_encoding": "base64"}),
        (None, {}, {"value": None}),
        (b"", {}, {"value": ""}),
    ],
)
def test_a_value_whose_fields_do_not_tell_it_is_kept_whole(
    content: bytes | None, fields: dict[str, Any], kept: dict[str, Any]
) -> None:
    row = whole(FakeMessage(content, b"a"))
    assert row == {**fields, "message": {"key": "a", **kept}}
    assert any("value" in fault for fault in faults_in(row, fields_of(row, SCHEMA), SCHEMA, "a"))


def test_a_field_that_is_called_as_one_of_the_harness_is_not_lost() -> None:
    """Else a column `message` of somebody's pipeline would hide what the reader saw, or be taken for it."""
    content = b'{"id":"a","message":"hello","offset":5}'
    row = {**whole(FakeMessage(content, b"a")), "partition": 0, "offset": 12}
    assert row == {"id": "a", "message": {"key": "a", "value": content.decode()}, "partition": 0, "offset": 12}
    schema = SinkSchema(kind="kafka", fields={"id": "text", "message": "text", "offset": "integer"}, key="id")
    fields = fields_of(row, schema)
    assert fields == {"id": "a", "message": "hello", "offset": 5}
    assert [*faults_in(row, fields, schema, "a")] == []


@pytest.mark.parametrize(
    "other",
    [
        FakeMessage(LINE, b"b"),
        FakeMessage(LINE, b"a", [("h", b"1")]),
        FakeMessage(LINE + b" ", b"a"),
        FakeMessage(LINE, b"a", type_=TIMESTAMP_LOG_APPEND_TIME),
    ],
)
def test_a_message_that_was_seen_otherwise_has_another_checksum(other: FakeMessage) -> None:
    """What the concurrent reader keeps of it."""
    assert crc_of_row(whole(FakeMessage(LINE, b"a"))) != crc_of_row(whole(other))


def test_a_message_of_the_real_client_is_looked_at_whole() -> None:
    """Against librdkafka's broker in memory: no header is none, and a producer's time is CreateTime."""
    broker = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    broker.produce("t", LINE, b"a", partition=0)
    broker.produce("t", LINE, None, partition=0, headers=[("h", b"\xff"), ("n", None)])
    assert broker.flush(10.0) == 0
    (one,) = broker.list_topics(timeout=10.0).brokers.values()
    consumer = Topics(f"{one.host}:{one.port}").consumer("read_committed", eof=False)
    consumer.assign([TopicPartition("t", 0, 0)])
    found = [whole(consumer.poll(10.0)) for _ in range(2)]
    consumer.close()
    assert found == [
        {"id": "é", "n": 1, "message": {"key": "a"}},
        {"id": "é", "n": 1, "message": {"key": None, "headers": [["h", "/w==", "base64"], ["n", None]]}},
    ]
