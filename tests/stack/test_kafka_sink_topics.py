"""Topics of a sink on the real broker: finding the mark, and what a topic that is away, narrow or too small ends in."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Producer

from effectively_once.epoch.message_bytes import BATCH_BYTES
from effectively_once.errors import RefusedRowsError, SinkError, UnreachableError
from effectively_once.pipeline.sinks import RECORD_BYTES
from effectively_once.sinks import kafka
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import ShardAddress, read_mark
from effectively_once.sinks.publish import (
    Published,
)
from infra.embedded.ports import free_ports
from infra.embedded.stack import EmbeddedStack
from tests.stack.conftest import Configure, Topic
from tests.stack.kafka_rows import mark_epoch, rows_of, visible
from tests.stack.reader import values

pytestmark = pytest.mark.stack


def test_there_is_no_mark_before_the_first_epoch(shard: ShardAddress) -> None:
    assert read_mark(shard) is None


def test_the_mark_is_found_after_a_long_history(shard: ShardAddress) -> None:
    sink = ShardSink(shard)
    for epoch in range(40):  # two offsets an epoch, mark and control record: more than one look back
        sink.publish(epoch, 1, [])
    assert mark_epoch(shard) == 39
    assert len(values(shard.bootstrap, shard.progress, 1)) == 40


def test_the_mark_is_found_behind_many_aborted_transactions(shard: ShardAddress) -> None:
    ShardSink(shard).publish(0, 1, rows_of(0))
    producer = Producer({"bootstrap.servers": shard.bootstrap, "transactional.id": shard.transactional_id})
    producer.init_transactions(30)
    for _ in range(35):
        producer.begin_transaction()
        producer.produce(shard.progress, b'{"epoch":1,"generation":1,"rows":0,"digest":""}', b"mark", partition=1)
        producer.flush(30)
        producer.abort_transaction(30)
    assert len(values(shard.bootstrap, shard.progress, 1, "read_uncommitted")) == 36
    assert mark_epoch(shard) == 0


def test_a_progress_topic_that_does_not_exist_is_named(stack: EmbeddedStack, pipeline: str) -> None:
    address = ShardAddress(stack.endpoints.kafka_bootstrap, pipeline, "accepted", 0)
    with pytest.raises(SinkError, match=f"topic {address.progress} does not exist") as refused:
        read_mark(address)
    assert "\n" not in str(refused.value)


def test_a_progress_topic_with_too_few_partitions_is_named(shard: ShardAddress) -> None:
    beyond = ShardAddress(shard.bootstrap, shard.pipeline, shard.sink, 2)
    with pytest.raises(SinkError, match=f"topic {shard.progress} does not exist, or lacks a partition"):
        read_mark(beyond)


def test_a_sink_topic_that_does_not_exist_is_named_and_no_mark_is_written(
    stack: EmbeddedStack, pipeline: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(kafka.CLIENT, "topic.metadata.propagation.max.ms", 500)
    address = ShardAddress(stack.endpoints.kafka_bootstrap, pipeline, "accepted", 0)
    topic(address.progress, 1, cleanup_policy="compact")
    with pytest.raises(SinkError, match=f"topic {address.topic} does not exist"):
        ShardSink(address).publish(0, 1, rows_of(0))
    assert mark_epoch(address) is None


def test_a_row_that_the_topic_does_not_take_is_named_and_published_once_it_does(
    stack: EmbeddedStack, pipeline: str, topic: Topic, configure: Configure
) -> None:
    address = ShardAddress(stack.endpoints.kafka_bootstrap, pipeline, "accepted", 0)
    topic(address.topic)
    topic(address.progress, cleanup_policy="compact")
    rows = [*rows_of(0), (None, random.Random(7).randbytes(1_500_000).hex().encode())]
    with pytest.raises(
        RefusedRowsError, match=f"a row is larger than the topic takes .topic {address.topic}.*max.message.bytes"
    ):
        ShardSink(address).publish(0, 1, rows)
    assert (visible(address), mark_epoch(address)) == ([], None)
    configure(address.topic, max_message_bytes="5000000")
    assert ShardSink(address).publish(0, 1, rows)[1] is Published.NOW
    assert len(visible(address)) == 4


def test_a_topic_takes_the_largest_message_of_its_sink_and_a_batch_of_small_ones(
    stack: EmbeddedStack, pipeline: str, topic: Topic
) -> None:
    """What no compression makes smaller; beside the message are Kafka's own words."""
    address = ShardAddress(stack.endpoints.kafka_bootstrap, pipeline, "accepted", 0)
    topic(address.topic, max_message_bytes=str(RECORD_BYTES))
    topic(address.progress, cleanup_policy="compact")
    drawn = random.Random(7)
    largest = (drawn.randbytes(500_000), drawn.randbytes(RECORD_BYTES - BATCH_BYTES - 500_000))
    rows = [(None, drawn.randbytes(1_000)) for _ in range(3_000)]
    assert ShardSink(address).publish(0, 1, [*rows, largest, *rows])[1] is Published.NOW
    assert mark_epoch(address) == 0


def test_a_broker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "COMMIT_TIMEOUT_S", 1.0)
    (port,) = free_ports(1)
    address = ShardAddress(f"127.0.0.1:{port}", "nobody", "accepted", 0)
    for ask in (lambda: read_mark(address, timeout_s=1.0), lambda: ShardSink(address).publish(0, 1, [])):
        with pytest.raises(UnreachableError, match=f"broker does not answer: .*127.0.0.1:{port}") as refused:
            ask()
        assert "\n" not in str(refused.value)
