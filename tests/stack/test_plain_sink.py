"""The sink that publishes at least once: a repeat is visible, and nothing is lost."""

from __future__ import annotations

import pytest

from effectively_once.errors import SinkError
from effectively_once.sinks.kafka import CLIENT
from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.sinks.plain import PlainSink
from effectively_once.sinks.publish import Published
from infra.embedded.stack import EmbeddedStack
from tests.stack.reader import messages

pytestmark = pytest.mark.stack

ROWS = [(None, f"r{n}".encode()) for n in range(5)]


def test_a_repeat_is_visible_again(shard: ShardAddress) -> None:
    sink = PlainSink(shard)
    first, _ = sink.publish(0, 1, ROWS)
    again, how = sink.publish(0, 1, ROWS)
    assert first == again
    assert how is Published.NOW
    found = [message.value() for message in messages(shard.bootstrap, shard.topic, shard.shard)]
    assert sorted(found) == sorted([value for _, value in ROWS] * 2)


def test_a_missing_topic_is_named(stack: EmbeddedStack, monkeypatch: pytest.MonkeyPatch) -> None:
    # A topic may be unknown for as long as a broker takes to restart; here nobody will make it.
    monkeypatch.setitem(CLIENT, "topic.metadata.propagation.max.ms", 1000)
    address = ShardAddress(stack.endpoints.kafka_bootstrap, "nobody", "accepted", 0)
    with pytest.raises(SinkError, match=r"nobody\.accepted"):
        PlainSink(address).publish(0, 1, ROWS)
