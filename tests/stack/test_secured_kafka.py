"""A real broker with the chart's TLS, logins and rights: a pipeline does its work, and nobody else anything of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from effectively_once.driver.preflight import Preflight
from effectively_once.driver.transaction_probe import TransactionProbe
from effectively_once.errors import AccessError, UnreachableError
from effectively_once.gateway import Gateway
from effectively_once.kafka_client import FOLDER, MECHANISM, PROTOCOL, client_config
from effectively_once.ledger.layout import Layout
from effectively_once.operate.create.create import create
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from effectively_once_jobs.user_counts import pipeline as user_counts
from infra.certificates import make_authority
from infra.toolchain.prepare import prepare
from tests.infra.platform import settings as platform
from tests.settings import pipeline_settings
from tests.stack.secured_kafka import SecuredKafka, secured

pytestmark = pytest.mark.stack
PIPELINES = {"user_counts": {}, "clicks": {"job": "own.clicks", "topic": "clicks"}}
USERS = {"tills": {"writes": ["events"]}, "ledger": {"reads": ["user_counts."]}}
PASSWORDS = {name: f"the password of {name}" for name in (*PIPELINES, *USERS)}
LogIn = Callable[..., None]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Start one for these pipelines and users."""
    wanted = platform(security={"kafka": True}, pipelines=PIPELINES, kafka={"users": USERS})
    with secured(wanted, prepare(), tmp_path_factory.mktemp("secured")) as broker:
        assert broker.give(PASSWORDS) == 0
        yield broker


@pytest.fixture
def log_in(kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> LogIn:
    """Return a function by which this process becomes a user."""

    def become(user: str, password: str | None = None, **files: Any) -> None:
        for name, value in kafka.folders.user(user, password or PASSWORDS[user], **files).items():
            monkeypatch.setenv(name, value)

    return become


@pytest.fixture
def settings(bucket: BucketAddress, kafka: SecuredKafka) -> PipelineSettings:
    topic = platform(pipelines=PIPELINES).pipelines["user_counts"].topic
    return pipeline_settings(
        pipeline="user_counts",
        topic=topic,
        kafka_bootstrap=kafka.bootstrap,
        s3_endpoint=bucket.endpoint,
        s3_bucket=bucket.bucket,
        start_patience_s=20,
    )


def make(settings: PipelineSettings) -> None:
    create(Job(user_counts, settings), source_partitions=2, replication=1, deadline_s=60)


def check(settings: PipelineSettings) -> None:
    layout = Layout(settings.pipeline)
    Preflight(Job(user_counts, settings), layout, S3ObjectStore(settings.bucket), KafkaSource(settings)).surroundings()


def read(bootstrap: str, topic: str) -> list[bytes | None]:
    """Return the first committed record of a topic, as one of its readers."""
    group = {"group.id": "ledger.any", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer({**client_config(bootstrap), **group})
    try:
        consumer.subscribe([topic])
        return [one.value() for one in consumer.consume(1, 30)]
    finally:
        consumer.close()


def send(producer: Producer, topic: str) -> None:
    """Send a record. Raises KafkaException, which names why it was not taken."""
    found: list[KafkaError | None] = []
    producer.produce(topic, b"a record", on_delivery=lambda error, _: found.append(error))
    producer.flush(20)
    if found[0] is not None:
        raise KafkaException(found[0])


def write(bootstrap: str, topic: str, transaction: str) -> None:
    """Send and commit a record. Raises what `send` does, and where the transaction is refused."""
    producer = Producer({**client_config(bootstrap), "transactional.id": transaction})
    producer.init_transactions(20)
    producer.begin_transaction()
    send(producer, topic)
    producer.commit_transaction(20)


def test_a_pipeline_makes_checks_and_writes_what_is_its_own(settings: PipelineSettings, log_in: LogIn) -> None:
    log_in("user_counts")
    make(settings)
    check(settings)
    TransactionProbe(settings.kafka_bootstrap, settings.pipeline).run()
    write(settings.kafka_bootstrap, "user_counts.accepted", "user_counts.any")


def test_another_pipeline_may_neither_look_nor_write_there(settings: PipelineSettings, log_in: LogIn) -> None:
    log_in("user_counts")
    make(settings)
    log_in("clicks")
    with pytest.raises(AccessError, match="user clicks"):
        check(settings)
    for topic, transaction in (("user_counts.accepted", "clicks.any"), ("clicks.any", "user_counts.any")):
        with pytest.raises(KafkaException) as refused:
            write(settings.kafka_bootstrap, topic, transaction)
        assert "AUTHORIZATION_FAILED" in refused.value.args[0].name()
    with pytest.raises(AccessError, match="user clicks"):
        TransactionProbe(settings.kafka_bootstrap, "user_counts").run()


def test_a_gateway_sends_and_a_reader_reads_and_neither_does_anything_else(
    settings: PipelineSettings, log_in: LogIn, tmp_path: Path
) -> None:
    log_in("user_counts")
    make(settings)
    write(settings.kafka_bootstrap, "user_counts.accepted", "user_counts.any")
    log_in("tills")
    own = {key: str(one) for key, one in client_config(settings.kafka_bootstrap).items() if key.startswith("s")}
    with Gateway(
        tmp_path / "tills",
        producer="tills",
        topic=settings.topic,
        bootstrap=settings.kafka_bootstrap,
        config=own,
    ) as gateway:
        gateway.put(b"a record", event_time_ms=1)
        gateway.flush(60)
    for topic in ("user_counts.accepted", "clicks"):
        with pytest.raises(KafkaException) as refused:
            send(Producer(client_config(settings.kafka_bootstrap)), topic)
        assert "AUTHORIZATION_FAILED" in refused.value.args[0].name()
    log_in("ledger")
    assert read(settings.kafka_bootstrap, "user_counts.accepted") == [b"a record"]
    with pytest.raises(KafkaException) as refused:
        send(Producer(client_config(settings.kafka_bootstrap)), settings.topic)
    assert "AUTHORIZATION_FAILED" in refused.value.args[0].name()


def test_who_has_a_wrong_password_or_believes_another_authority_is_refused_by_name(
    settings: PipelineSettings, log_in: LogIn
) -> None:
    log_in("user_counts", "another's")
    with pytest.raises(AccessError, match="refuses its login: user user_counts"):
        check(settings)
    log_in("user_counts", authority=make_authority("another platform"))
    with pytest.raises(AccessError, match="not the one whose certificate is believed"):
        check(settings)


def test_who_does_not_log_in_gets_no_answer(
    settings: PipelineSettings, kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (PROTOCOL, MECHANISM, FOLDER):
        monkeypatch.delenv(name, raising=False)
    for listener in (kafka.bootstrap, kafka.nodes):
        with pytest.raises((AccessError, UnreachableError), match=listener):
            check(settings.model_copy(update={"kafka_bootstrap": listener, "start_patience_s": 3}))


def test_a_user_of_clients_is_nobody_at_the_listener_of_nodes(
    settings: PipelineSettings, kafka: SecuredKafka, log_in: LogIn
) -> None:
    log_in("user_counts")
    with pytest.raises((AccessError, UnreachableError), match=kafka.nodes):
        check(settings.model_copy(update={"kafka_bootstrap": kafka.nodes, "start_patience_s": 3}))


def test_a_password_and_a_right_are_taken_back_when_others_are_given(
    settings: PipelineSettings, kafka: SecuredKafka, log_in: LogIn
) -> None:
    log_in("user_counts")
    make(settings)
    assert kafka.give({**PASSWORDS, "clicks": "a new one"}, user_counts=[]) == 0
    with pytest.raises(AccessError, match="does not let it use the topic"):
        check(settings)
    log_in("clicks")
    with pytest.raises(AccessError, match="refuses its login: user clicks"):
        TransactionProbe(settings.kafka_bootstrap, "clicks").run()
    assert kafka.give(PASSWORDS) == 0
    log_in("user_counts")
    check(settings)
