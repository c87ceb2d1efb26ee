"""One broker and one object store for the whole package; buckets and topics of its own for every test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from infra.embedded.postgres import PostgresServer
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import prepare
from tests.database import postgres
from tests.stack.clicks import Clicks
from tests.stack.life_cycle import Command, command_on
from tests.stack.lines import Lines

Topic = Callable[..., str]
Configure = Callable[..., None]


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStack]:
    """Start broker and store once. Their credentials are in the environment, where the library looks for them."""
    with EmbeddedStack(tmp_path_factory.mktemp("stack"), prepare()) as started, pytest.MonkeyPatch.context() as patch:
        patch.setenv(ACCESS_KEY, started.endpoints.s3_access_key)
        patch.setenv(SECRET_KEY, started.endpoints.s3_secret_key)
        yield started


@pytest.fixture
def bucket(stack: EmbeddedStack) -> BucketAddress:
    """Create a bucket for this test."""
    name = f"test-{uuid.uuid4().hex}"
    stack.object_store.client().make_bucket(name)
    return BucketAddress(stack.endpoints.s3_endpoint, name)


@pytest.fixture
def store(bucket: BucketAddress) -> S3ObjectStore:
    """Open the test's bucket."""
    return S3ObjectStore(bucket)


@pytest.fixture(scope="package")
def admin(stack: EmbeddedStack) -> AdminClient:
    """Connect to the broker as its administrator."""
    # The broker is restarted by some tests: come back quickly.
    return AdminClient(
        {"bootstrap.servers": stack.endpoints.kafka_bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0}
    )


@pytest.fixture
def pipeline() -> str:
    """Name a pipeline that no other test uses."""
    return f"p{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="package")
def topic(admin: AdminClient) -> Topic:
    """Return a function that creates a topic and waits for it."""

    def create(name: str, partitions: int = 1, **config: str) -> str:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
        # The controller has answered; the broker learns of the topic a moment later.
        wait_for(f"topic {name}", 30, lambda: _led(admin, name) == partitions)
        return name

    return create


@pytest.fixture
def configure(admin: AdminClient) -> Configure:
    """Return a function that changes settings of a topic and waits until the broker has them."""

    def change(name: str, **config: str) -> None:
        wanted = {key.replace("_", "."): value for key, value in config.items()}
        resource = ConfigResource(
            ResourceType.TOPIC,
            name,
            incremental_configs=[
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in wanted.items()
            ],
        )
        admin.incremental_alter_configs([resource])[resource].result(30)
        asked = ConfigResource(ResourceType.TOPIC, name)

        def has() -> bool:
            told = admin.describe_configs([asked])[asked].result(30)
            return all(told[key].value == value for key, value in wanted.items())

        # As with a new topic: the controller has answered, and the broker learns of it a moment later.
        wait_for(f"settings of topic {name}", 30, has)

    return change


def _led(admin: AdminClient, name: str) -> int:
    return sum(
        partition.leader >= 0 for partition in admin.list_topics(name, timeout=5).topics[name].partitions.values()
    )


@pytest.fixture
def shard(stack: EmbeddedStack, pipeline: str, topic: Topic) -> ShardAddress:
    """Create the two topics of a sink; return the address of its second shard."""
    address = ShardAddress(stack.endpoints.kafka_bootstrap, pipeline, "accepted", 1)
    topic(address.topic, 2)
    topic(address.progress, 2, cleanup_policy="compact")
    return address


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """Start one for all pipelines of this module."""
    with postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
def lines(stack: EmbeddedStack, database: PostgresServer, pipeline: str, tmp_path: Path) -> Lines:
    return Lines(stack, database.url, pipeline, tmp_path)


@pytest.fixture
def command(lines: Lines, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command on this test's pipeline."""
    return command_on(lines.file, capsys)


@pytest.fixture
def clicks(stack: EmbeddedStack, pipeline: str, tmp_path: Path) -> Clicks:
    """Make a pipeline that nobody has started yet."""
    return Clicks(stack, pipeline, tmp_path)
