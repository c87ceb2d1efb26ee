"""The embedded stack: both servers really start, keep their promises, and are gone afterwards."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import psutil
import pytest
import urllib3
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic
from minio import Minio
from minio.error import S3Error

from infra.embedded.kafka import KafkaBroker
from infra.embedded.object_store import REGION
from infra.embedded.ports import free_ports
from infra.embedded.process import ServerError, identity
from infra.embedded.stack import EmbeddedStack, Endpoints, Kept
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_jars
from infra.toolchain.jdk import find_jdk
from infra.toolchain.minio import build_minio
from infra.toolchain.prepare import Toolchain
from infra.toolchain.wheel import Wheel
from tests.stack.paused import pause_broker

pytestmark = pytest.mark.stack

UNUSED = Path("/nonexistent")


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    cache = Cache(cache_root())
    return Toolchain(
        minio=build_minio(cache),
        kafka_classpath=resolve_jars(cache, "kafka"),
        spark_jars=UNUSED,
        jvm_jar=UNUSED,
        wheel=Wheel(path=UNUSED, sha256="", installed=UNUSED),
        java=find_jdk().java,
        spark_home=UNUSED,
    )


def _create_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # named: its answers die with it
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(timeout=20)


def _send(bootstrap: str, topic: str, value: bytes, **settings: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 20000, **settings})
    if "transactional.id" in settings:
        producer.init_transactions(20)
        producer.begin_transaction()
    failures: list[KafkaError] = []
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    if "transactional.id" in settings:
        producer.commit_transaction(20)
    assert producer.flush(20) == 0
    assert failures == []


def _read_all(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"test-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values


def _conditional_put(endpoints: Endpoints, name: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    host = endpoints.s3_endpoint.removeprefix("http://")
    client = Minio(
        host, access_key=endpoints.s3_access_key, secret_key=endpoints.s3_secret_key, secure=False, region=REGION
    )
    url = client.get_presigned_url("PUT", endpoints.s3_bucket, name)
    with urllib3.PoolManager(retries=False) as http:
        answer = http.request("PUT", url, body=body, headers=headers)
        return answer.status, answer.headers.get("ETag", "")


def test_records_sent_in_a_transaction_are_read_back(stack: EmbeddedStack) -> None:
    bootstrap = stack.endpoints.kafka_bootstrap
    _create_topic(bootstrap, "round-trip")
    _send(bootstrap, "round-trip", b"plain")
    _send(bootstrap, "round-trip", b"committed", **{"transactional.id": "t"})
    assert _read_all(bootstrap, "round-trip", 2) == [b"plain", b"committed"]


def test_a_mistyped_topic_is_an_error_and_not_a_new_topic(stack: EmbeddedStack) -> None:
    bootstrap = stack.endpoints.kafka_bootstrap
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 3000})
    producer.produce("no-such-topic", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    assert len(errors) == 1
    assert errors[0] is not None
    assert "no-such-topic" not in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).topics


def test_of_32_conditional_creates_exactly_one_wins(stack: EmbeddedStack) -> None:
    for turn in range(5):
        statuses: list[int] = []
        ready = threading.Barrier(32)

        def put(number: int, turn: int = turn, ready: threading.Barrier = ready, into: list[int] = statuses) -> None:
            ready.wait()
            body = f"writer {number}".encode()
            into.append(_conditional_put(stack.endpoints, f"create/{turn}", body, {"If-None-Match": "*"})[0])

        threads = [threading.Thread(target=put, args=(number,)) for number in range(32)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert sorted(statuses) == [200] + [412] * 31


def test_a_conditional_replace_succeeds_once_per_etag(stack: EmbeddedStack) -> None:
    status, etag = _conditional_put(stack.endpoints, "replace", b"one", {"If-None-Match": "*"})
    assert status == 200
    assert _conditional_put(stack.endpoints, "replace", b"two", {"If-Match": etag})[0] == 200
    assert _conditional_put(stack.endpoints, "replace", b"three", {"If-Match": etag})[0] == 412


def test_wrong_credentials_are_refused_by_name(stack: EmbeddedStack) -> None:
    good = stack.endpoints
    host = good.s3_endpoint.removeprefix("http://")
    for access, secret, code in (
        (good.s3_access_key, "wrong-secret", "SignatureDoesNotMatch"),
        ("nobody-here", good.s3_secret_key, "InvalidAccessKeyId"),
    ):
        client = Minio(host, access_key=access, secret_key=secret, secure=False, region=REGION)
        with pytest.raises(S3Error) as caught:
            list(client.list_objects(good.s3_bucket))
        assert caught.value.code == code


def test_credentials_are_in_no_log_and_no_command_line(stack: EmbeddedStack) -> None:
    secrets = [stack.object_store.access_key, stack.object_store.secret_key]
    logs = list(stack.object_store._log.parent.iterdir())
    assert {log.name for log in logs} == {"kafka.log", "object_store.log"}
    shown = "".join(log.read_text(errors="replace") for log in logs)
    shown += " ".join(psutil.Process(stack.object_store.pid).cmdline())
    assert not any(secret in shown for secret in secrets)
    assert stack.object_store.secret_key not in repr(stack.endpoints)


def test_both_servers_listen_on_the_loopback_address_only(stack: EmbeddedStack) -> None:
    for pid in (stack.kafka.pid, stack.object_store.pid):
        listening = [c for c in psutil.Process(pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]
        assert listening
        assert {c.laddr.ip.removeprefix("::ffff:") for c in listening} <= {"127.0.0.1", "::1"}


def test_two_stacks_at_once_are_strangers(stack: EmbeddedStack, toolchain: Toolchain, tmp_path: Path) -> None:
    with EmbeddedStack(tmp_path, toolchain) as other:
        ours, theirs = stack.endpoints, other.endpoints
        assert ours.kafka_bootstrap != theirs.kafka_bootstrap
        assert ours.s3_endpoint != theirs.s3_endpoint
        assert ours.s3_secret_key != theirs.s3_secret_key
        _create_topic(theirs.kafka_bootstrap, "theirs")
        assert "theirs" not in AdminClient({"bootstrap.servers": ours.kafka_bootstrap}).list_topics(timeout=20).topics
    assert stack.kafka.running()
    assert stack.object_store.running()


def test_after_sigkill_both_restart_with_their_data_on_their_ports(toolchain: Toolchain, tmp_path: Path) -> None:
    with EmbeddedStack(tmp_path, toolchain) as stack:
        endpoints = stack.endpoints
        _create_topic(endpoints.kafka_bootstrap, "kept")
        _send(endpoints.kafka_bootstrap, "kept", b"record")
        assert _conditional_put(endpoints, "kept", b"object", {})[0] == 200
        before = [identity(stack.kafka.pid), identity(stack.object_store.pid)]
        stack.kafka.kill()
        stack.object_store.kill()
        assert not stack.kafka.running()
        assert not stack.object_store.running()
        stack.object_store.restart()
        stack.kafka.restart()
        after = [identity(stack.kafka.pid), identity(stack.object_store.pid)]
        assert None not in after
        assert not set(before) & set(after)
        assert stack.endpoints == endpoints
        assert _read_all(endpoints.kafka_bootstrap, "kept", 1) == [b"record"]
        assert _conditional_put(endpoints, "kept", b"object", {"If-None-Match": "*"})[0] == 412


@pytest.mark.parametrize("killed", [False, True])
def test_data_that_are_kept_are_gone_on_with_on_other_ports(
    toolchain: Toolchain, tmp_path: Path, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after SIGKILL, and after a first start that was interrupted while it formatted."""
    kept = Kept(tmp_path / "kept", "an-access-key", "a-secret-key-of-many-letters")
    (kept.folder / "kafka-made").mkdir(parents=True)
    (kept.folder / "kafka-made" / "meta.properties").write_text("half")
    taken: set[int] = set()

    def other_ports(count: int) -> list[int]:
        found = [port for port in free_ports(count + len(taken)) if port not in taken][:count]
        taken.update(found)
        return found

    monkeypatch.setattr("infra.embedded.server.free_ports", other_ports)
    with EmbeddedStack(tmp_path / "first", toolchain, kept=kept) as stack:
        first, before = stack.endpoints, _identities(stack, "kept", create=True)
        _send(first.kafka_bootstrap, "kept", b"record")
        assert _conditional_put(first, "kept", b"object", {})[0] == 200
        assert stack.object_store.read("kept") == b"object"
        assert stack.object_store.read("not-kept") is None
        if killed:
            stack.kafka.kill()
            stack.object_store.kill()
    assert not (tmp_path / "first" / "work").exists()
    with EmbeddedStack(tmp_path / "second", toolchain, kept=kept) as stack:
        second = stack.endpoints
        assert second.kafka_bootstrap != first.kafka_bootstrap
        assert second.s3_endpoint != first.s3_endpoint
        assert _identities(stack, "kept") == before
        _send(second.kafka_bootstrap, "kept", b"after", **{"transactional.id": "t"})
        assert _read_all(second.kafka_bootstrap, "kept", 2) == [b"record", b"after"]
        _create_topic(second.kafka_bootstrap, "new")
        assert _conditional_put(second, "kept", b"object", {"If-None-Match": "*"})[0] == 412
    assert sorted(path.name for path in kept.folder.iterdir()) == ["kafka", "object_store"]


def _identities(stack: EmbeddedStack, topic: str, *, create: bool = False) -> tuple[str, str]:
    """Return the cluster's id and a topic's, which keeps its records for ever."""
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap})
    if create:
        _create_topic(stack.kafka.bootstrap, topic)
    asked = ConfigResource(ResourceType.TOPIC, topic)
    assert admin.describe_configs([asked])[asked].result(20)["retention.ms"].value == "-1"
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(20)
    return admin.describe_cluster().result(20).cluster_id, str(described.topic_id)


def test_without_data_that_are_kept_records_expire_as_kafka_has_it(stack: EmbeddedStack) -> None:
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap})
    _create_topic(stack.kafka.bootstrap, "expires")
    asked = ConfigResource(ResourceType.TOPIC, "expires")
    assert admin.describe_configs([asked])[asked].result(20)["retention.ms"].value == "604800000"


@pytest.mark.parametrize("keep", [False, True])
def test_stop_leaves_no_process_and_only_what_was_to_be_kept(toolchain: Toolchain, tmp_path: Path, keep: bool) -> None:
    said: list[str] = []
    stack = EmbeddedStack(tmp_path, toolchain, said.append, keep=keep)
    endpoints = stack.start()
    pids = [stack.kafka.pid, stack.object_store.pid]
    assert sorted(line.split(" ")[1] for line in said) == ["Kafka", "object"]
    stack.stop()
    stack.stop()
    assert [identity(pid) for pid in pids] == [None, None]
    assert (tmp_path / "work").exists() is keep
    assert (tmp_path / "logs" / "kafka.log").stat().st_size > 0
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": endpoints.kafka_bootstrap, "log_level": 0}).list_topics(timeout=1)


def test_a_server_that_cannot_start_says_why_and_stops_the_other(toolchain: Toolchain, tmp_path: Path) -> None:
    stack = EmbeddedStack(tmp_path, toolchain)
    (tmp_path / "work" / "object_store").mkdir(parents=True)
    (tmp_path / "work" / "object_store" / "data").write_text("a file where the data directory belongs")
    with pytest.raises((ServerError, OSError), match="data"):
        stack.start()
    assert not stack.kafka.running()
    assert not stack.object_store.running()


def test_a_port_that_was_taken_meanwhile_is_replaced(
    toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        taken = thief.getsockname()[1]
        offers = iter([[taken, *free_ports(2)]])
        monkeypatch.setattr("infra.embedded.server.free_ports", lambda count: next(offers, None) or free_ports(count))
        broker = KafkaBroker(tmp_path / "work", tmp_path / "kafka.log", toolchain.java, toolchain.kafka_classpath)
        try:
            broker.start()
            assert broker.bootstrap != f"127.0.0.1:{taken}"
            assert AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=20).brokers
        finally:
            broker.stop()


def test_a_paused_broker_answers_again_when_it_is_woken(stack: EmbeddedStack) -> None:
    pause_broker(stack)
    try:
        client = AdminClient({"bootstrap.servers": stack.kafka.bootstrap, "log_level": 0})
        with pytest.raises(KafkaException):
            client.list_topics(timeout=1)
    finally:
        stack.kafka.signal(signal.SIGCONT)
    assert client.list_topics(timeout=20).brokers
    assert os.getpgid(stack.kafka.pid) != os.getpgid(0)
