"""A real broker's transactions are tried: what holds passes, whoever is killed in the middle is ended by the next."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from effectively_once.driver import transaction_probe
from effectively_once.driver.transaction_probe import CONFIG, TransactionProbe, name_topic
from effectively_once.errors import PipelineError, SinkError
from effectively_once.sinks.kafka_shard import consumer_of
from infra.embedded.stack import EmbeddedStack
from tests.stack.conftest import Topic

pytestmark = pytest.mark.stack


@pytest.fixture
def probe(stack: EmbeddedStack, pipeline: str) -> TransactionProbe:
    return TransactionProbe(stack.endpoints.kafka_bootstrap, pipeline)


def test_the_broker_holds_and_a_start_is_not_slower_for_it(
    probe: TransactionProbe, pipeline: str, admin: AdminClient
) -> None:
    """The first one makes the topic; the fastest of three others takes well below a second."""
    probe.run()
    took = []
    for _ in range(3):
        began = time.monotonic()
        probe.run()
        took.append(time.monotonic() - began)
    assert min(took) < 1.0, took
    asked = ConfigResource(ResourceType.TOPIC, name_topic(pipeline))
    (answer,) = admin.describe_configs([asked]).values()
    told = answer.result()
    assert {name: told[name].value for name, _ in CONFIG} == dict(CONFIG)


def test_a_start_that_was_killed_in_the_middle_is_ended_by_the_next(probe: TransactionProbe, topic: Topic) -> None:
    """Its transaction stays open for a minute, behind which committed readers would wait."""
    name = topic(name_topic(probe.pipeline))
    killed = Producer({"bootstrap.servers": probe.bootstrap, "transactional.id": name, "log_level": 0})
    killed.init_transactions(30)
    killed.begin_transaction()
    killed.produce(name, b"of before", b"probe", partition=0)
    assert killed.flush(30) == 0
    began = time.monotonic()
    probe.run()
    assert time.monotonic() - began < 15
    with pytest.raises(KafkaException):
        killed.commit_transaction(30)


def test_starts_at_once_do_not_refuse_each_other(probe: TransactionProbe) -> None:
    failures: list[PipelineError] = []

    def start() -> None:
        try:
            probe.run()
        except PipelineError as error:
            failures.append(error)

    probe.run()
    starts = [threading.Thread(target=start) for _ in range(2)]
    for one in starts:
        one.start()
    for one in starts:
        one.join(90)
        assert not one.is_alive()
    assert failures == []


def test_a_reader_of_everything_is_a_broker_that_shows_what_was_aborted(
    probe: TransactionProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: to such a reader a real broker answers as one without transactions does."""
    monkeypatch.setattr(
        transaction_probe, "consumer_of", lambda bootstrap, _: consumer_of(bootstrap, "read_uncommitted")
    )
    with pytest.raises(SinkError, match="shows readers of committed records one that was aborted"):
        probe.run()
