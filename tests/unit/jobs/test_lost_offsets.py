"""A reader of a topic reads all of it from where it committed, or says that it would not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from effectively_once.errors import SourceError
from effectively_once.sources.kafka import KafkaSource
from effectively_once_jobs.system_usage.acknowledged import Topic
from effectively_once_jobs.system_usage.settings import UsageSettings
from effectively_once_jobs.two_ways import topics
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
    monkeypatch.setattr(KafkaSource, "first_offsets", lambda source: {source.topics[0]: {"0": 0}})
    with pytest.raises(SourceError, match=r"cannot be read: .*[Oo]ffset out of range"):
        reader(bootstrap)()


class Broker:
    """A consumer of a topic with so many partitions; offset 5 was committed in the first one."""

    def __init__(self, partitions: int) -> None:
        self.partitions, self.assigned = partitions, dict[int, int]()

    def list_topics(self, topic: str, _timeout_s: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=dict.fromkeys(range(self.partitions)))})

    def committed(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        return [TopicPartition(one.topic, one.partition, -1001 if one.partition else 5) for one in asked]

    def assign(self, wanted: list[TopicPartition]) -> None:
        self.assigned = {one.partition: one.offset for one in wanted}


def reading(monkeypatch: pytest.MonkeyPatch, partitions: int) -> Broker:
    broker = Broker(partitions)
    monkeypatch.setattr(topics, "Consumer", lambda _: broker)
    Input(WaySettings(**WHOLE, shards=2))
    return broker


def test_it_goes_on_where_it_committed_and_begins_where_it_never_did(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reading(monkeypatch, 2).assigned == {0: 5, 1: OFFSET_BEGINNING}


@pytest.mark.parametrize("partitions", [0, 1, 4])
def test_a_topic_of_another_shape_is_refused(monkeypatch: pytest.MonkeyPatch, partitions: int) -> None:
    with pytest.raises(SourceError, match=rf"has {partitions} partitions, and shards is 2 .*ways\.2"):
        reading(monkeypatch, partitions)
