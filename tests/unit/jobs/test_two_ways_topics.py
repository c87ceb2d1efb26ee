"""An operator of dedup reads all of its topic, or says that it would not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from effectively_once.errors import SourceError
from effectively_once_jobs.two_ways import topics
from effectively_once_jobs.two_ways.settings import WaySettings
from tests.unit.jobs.test_two_ways_settings import WHOLE


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
    topics.Input(WaySettings(**WHOLE, shards=2))
    return broker


def test_it_goes_on_where_it_committed_and_begins_where_it_never_did(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reading(monkeypatch, 2).assigned == {0: 5, 1: OFFSET_BEGINNING}


@pytest.mark.parametrize("partitions", [0, 1, 4])
def test_a_topic_of_another_shape_is_refused(monkeypatch: pytest.MonkeyPatch, partitions: int) -> None:
    with pytest.raises(SourceError, match=rf"has {partitions} partitions, and shards is 2 .*ways\.2"):
        reading(monkeypatch, partitions)
