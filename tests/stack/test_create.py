"""Bucket and topics, made on a real broker and a real object store."""

from __future__ import annotations

import uuid

import pytest
import structlog
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from effectively_once.driver.preflight import Preflight
from effectively_once.driver.sink_topics import SinkTopics
from effectively_once.errors import AccessError, SinkError, SourceError, UnreachableError
from effectively_once.ledger.layout import Layout
from effectively_once.operate.create.create import create
from effectively_once.operate.create.topics import topics_of
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.pipeline.sinks import MESSAGE_BYTES
from effectively_once.sources.kafka import KafkaSource
from effectively_once.sources.times import BOUNDS
from effectively_once.store.object_store import S3ObjectStore
from effectively_once.store.s3_client import SECRET_KEY
from effectively_once_jobs.user_counts import pipeline as user_counts
from infra.embedded.stack import EmbeddedStack
from tests.settings import pipeline_settings
from tests.stack.conftest import Configure, Topic

pytestmark = pytest.mark.stack


@pytest.fixture
def settings(stack: EmbeddedStack, pipeline: str) -> PipelineSettings:
    return pipeline_settings(
        pipeline=pipeline,
        topic=f"in-{pipeline}",
        kafka_bootstrap=stack.endpoints.kafka_bootstrap,
        s3_endpoint=stack.endpoints.s3_endpoint,
        s3_bucket=f"b-{uuid.uuid4().hex}",
    )


def test_what_is_made_passes_the_preflight_and_may_be_made_again(
    settings: PipelineSettings, admin: AdminClient
) -> None:
    """The driver's own check of its surroundings accepts it; a second run changes nothing."""
    for _ in range(2):
        create(
            Job(user_counts, settings),
            replication=1,
            deadline_s=30,
            source_partitions=3,
            event_log_bucket=settings.s3_bucket,
        )
    store = S3ObjectStore(settings.bucket)
    Preflight(Job(user_counts, settings), Layout(settings.pipeline), store, KafkaSource(settings)).surroundings()
    assert list(store.names("")) == ["spark-events/"]
    known = admin.list_topics(timeout=10).topics
    for topic in topics_of(Job(user_counts, settings), 3):
        assert len(known[topic.name].partitions) == topic.partitions
        asked = ConfigResource(ResourceType.TOPIC, topic.name)
        (answer,) = admin.describe_configs([asked]).values()
        assert answer.result()["cleanup.policy"].value == ("compact" if topic.compacted else "delete")


@pytest.mark.parametrize("time_ms", [-9_300_000_000_000_000, 9_300_000_000_000_000])
def test_a_record_whose_time_spark_cannot_read_is_refused_at_its_producer(
    settings: PipelineSettings, time_ms: int
) -> None:
    """In the topic it would stop every version of the pipeline: Spark's source raises before any transform."""
    create(Job(user_counts, settings), replication=1, deadline_s=30, source_partitions=1)
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})
    for when in (time_ms, 0):
        producer.produce(settings.topic, b"{}", timestamp=when or 1, on_delivery=lambda error, _: told.append(error))
        producer.flush(30)
    refused, taken = told
    assert refused is not None
    assert refused.code() == KafkaError.INVALID_TIMESTAMP
    assert taken is None


@pytest.mark.parametrize("bounds", [{}, BOUNDS], ids=["unbounded", "bounded"])
def test_a_start_warns_of_an_input_topic_that_takes_any_time(
    settings: PipelineSettings, topic: Topic, bounds: dict[str, str]
) -> None:
    topic(settings.topic, 1, **{name.replace(".", "_"): value for name, value in bounds.items()})
    with structlog.testing.capture_logs() as logs:
        source = KafkaSource(settings)
        source.warn_of_times(source.topic_settings())
    assert [line["topic"] for line in logs] == ([] if bounds else [settings.topic])
    assert all(
        f"--topic {settings.topic} --add-config message.timestamp.before.max.ms=" in line["todo"] for line in logs
    )


@pytest.mark.parametrize("sink", ["accepted", "dead_letter", "user_counts"])
def test_a_topic_that_takes_less_than_the_messages_of_its_sink_is_refused_until_it_is_mended(
    settings: PipelineSettings, configure: Configure, sink: str
) -> None:
    """By the start as by `create`: an epoch would stop at such a message after another sink has shown it."""
    create(Job(user_counts, settings), replication=1, deadline_s=30, source_partitions=1)
    topics, name = SinkTopics(settings, user_counts.kafka_sinks), f"{settings.pipeline}.{sink}"
    topics.refuse_small(user_counts)
    configure(name, max_message_bytes=str(MESSAGE_BYTES - 1))
    says = f"takes messages of 12,648,591 .*--topic {name} --add-config max.message.bytes={MESSAGE_BYTES}`"
    with pytest.raises(SinkError, match=says):
        topics.refuse_small(user_counts)
    with pytest.raises(SinkError, match=says):
        create(Job(user_counts, settings), replication=1, deadline_s=30)
    configure(name, max_message_bytes=str(MESSAGE_BYTES))
    topics.refuse_small(user_counts)


def test_what_no_sink_takes_of_a_large_input_is_told(settings: PipelineSettings, topic: Topic) -> None:
    topic(settings.topic, 1, max_message_bytes="3000000")
    told: list[str] = []
    create(Job(user_counts, settings), replication=1, deadline_s=30, say=told.append)
    assert [line for line in told if "3,000,000 bytes: one whose message in accepted" in line]


def test_another_number_of_partitions_is_refused(settings: PipelineSettings) -> None:
    """The source exists with two: three cannot be had without moving keys."""
    create(Job(user_counts, settings), replication=1, deadline_s=30, source_partitions=2)
    with pytest.raises(SourceError, match=rf"2 partitions, asked for are 3 .topic {settings.topic}"):
        create(Job(user_counts, settings), replication=1, deadline_s=30, source_partitions=3)


def test_more_copies_than_brokers_are_waited_for_and_then_named(settings: PipelineSettings) -> None:
    """Other brokers may still be starting; at the deadline the broker's own words are the evidence."""
    with pytest.raises(UnreachableError, match=r"(?i)topics: not done within 2 s.*replication"):
        create(Job(user_counts, settings), replication=3, deadline_s=2)


def test_wrong_credentials_are_named(settings: PipelineSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once: the deadline is not waited for."""
    monkeypatch.setenv(SECRET_KEY, "wrong")
    with pytest.raises(AccessError, match=SECRET_KEY):
        create(Job(user_counts, settings), replication=1, deadline_s=600)
