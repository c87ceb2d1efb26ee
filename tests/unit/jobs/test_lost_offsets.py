"""A topic that lost what a reader committed: the reader says so, and does not go on behind it as if that were all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from effectively_once.errors import SourceError
from effectively_once.sources.kafka import KafkaSource
from effectively_once_jobs.system_usage.acknowledged import Topic
from effectively_once_jobs.system_usage.settings import UsageSettings
from effectively_once_jobs.two_ways.settings import WaySettings
from effectively_once_jobs.two_ways.topics import Input
from tests.unit.jobs.test_system_usage import SETTINGS
from tests.unit.jobs.test_two_ways_settings import WHOLE

PARTITIONS, RECORDS, GONE = 4, 5, 99
"""The client's own mock of a broker makes a topic of four partitions when it is written to."""
WAIT_S = 10.0


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A broker in this process, with five records in partition 0 of two topics."""
    broker = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    for topic in ("transactions", "ways.2"):
        for number in range(RECORDS):
            broker.produce(topic, b"%d" % number, partition=0)
    assert broker.flush(WAIT_S) == 0
    (one,) = broker.list_topics(timeout=WAIT_S).brokers.values()
    yield f"{one.host}:{one.port}"


def commit(bootstrap: str, group: str, topic: str) -> None:
    """As a run did that read further than the topic goes now."""
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    client.commit(offsets=[TopicPartition(topic, 0, GONE)], asynchronous=False)
    client.close()


def by_system_usage(bootstrap: str) -> Callable[[], object]:
    settings = UsageSettings.model_validate({**SETTINGS, "kafka_bootstrap": bootstrap, "topic": "transactions"})
    commit(bootstrap, settings.pipeline, settings.topic)
    topic = Topic(settings)
    return lambda: list(topic.read(1, WAIT_S))


def by_two_ways(bootstrap: str) -> Callable[[], object]:
    settings = WaySettings(
        **{**WHOLE, "kafka_bootstrap": bootstrap, "shards": PARTITIONS, "turn_s": WAIT_S, "epoch_rows_max": 1}
    )
    commit(bootstrap, f"{settings.pipeline}.{settings.operator}", settings.reads(settings.operator))
    return Input(settings).read


@pytest.mark.parametrize("reader", [by_system_usage, by_two_ways])
def test_offsets_that_are_gone_are_an_error(
    bootstrap: str, reader: Callable[[str], Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The mock has no controller, which is asked for them.
    monkeypatch.setattr(KafkaSource, "first_offsets", lambda _: {"0": 0})
    with pytest.raises(SourceError, match=r"cannot be read: .*[Oo]ffset out of range"):
        reader(bootstrap)()
