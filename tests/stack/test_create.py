"""Bucket and topics, made on a real broker and a real object store."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from effectively_once.create import create, topics_of
from effectively_once.errors import AccessError, SourceError, UnreachableError
from effectively_once.job import Job
from effectively_once.ledger.layout import Layout
from effectively_once.object_store import SECRET_KEY, S3ObjectStore
from effectively_once.preflight import Preflight
from effectively_once.settings import PipelineSettings
from effectively_once.sources.kafka import KafkaSource
from effectively_once_jobs.user_counts import pipeline as user_counts
from infra.embedded.stack import EmbeddedStack
from tests.settings import pipeline_settings

pytestmark = pytest.mark.stack


@pytest.fixture
def settings(stack: EmbeddedStack, pipeline: str) -> PipelineSettings:
    return pipeline_settings(
        pipeline=pipeline, topic=f"in-{pipeline}", kafka_bootstrap=stack.endpoints.kafka_bootstrap,
        s3_endpoint=stack.endpoints.s3_endpoint, s3_bucket=f"b-{uuid.uuid4().hex}",
    )  # fmt: skip


def test_what_is_made_passes_the_preflight_and_may_be_made_again(
    settings: PipelineSettings, admin: AdminClient
) -> None:
    """The driver's own check of its surroundings accepts it; a second run changes nothing."""
    for _ in range(2):
        create(
            Job(user_counts, settings), replication=1, deadline_s=30, source_partitions=3,
            event_log_bucket=settings.s3_bucket,
        )  # fmt: skip
    store = S3ObjectStore(settings.bucket)
    Preflight(Job(user_counts, settings), Layout(settings.pipeline), store, KafkaSource(settings)).surroundings()
    assert list(store.names("")) == ["spark-events/"]
    known = admin.list_topics(timeout=10).topics
    for topic in topics_of(Job(user_counts, settings), 3):
        assert len(known[topic.name].partitions) == topic.partitions
        asked = ConfigResource(ResourceType.TOPIC, topic.name)
        (answer,) = admin.describe_configs([asked]).values()
        assert answer.result()["cleanup.policy"].value == ("compact" if topic.compacted else "delete")


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
