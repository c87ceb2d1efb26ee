"""Kafka is spoken to as the environment says; what that lacks is refused by name, and no secret goes astray."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import certifi
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from effectively_once import kafka_client
from effectively_once.driver import broker_probe
from effectively_once.driver.sink_topics import SinkTopics
from effectively_once.errors import AccessError, SettingsError, UnreachableError
from effectively_once.kafka_client import Access, client_config, refusal
from effectively_once.operate import grant
from effectively_once.operate.create import broker, wait
from effectively_once.sinks.kafka_shard import unreachable
from effectively_once.sources.kafka import KafkaSource
from tests.settings import pipeline_settings

SECRET = "of-nobody-else"
NOBODY = pipeline_settings(kafka_bootstrap="127.0.0.1:1").model_copy(update={"start_patience_s": 0.3})


@pytest.fixture
def login(tmp_path: Path) -> dict[str, str]:
    files = {
        "username": "orders\n",
        "password": f"{SECRET}\n",
        "ca.crt": "certificates",
        "jaas.conf": "KafkaClient {};",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return {
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "KAFKA_CREDENTIALS": str(tmp_path),
    }


@pytest.fixture(autouse=True)
def _nobody_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "_refused", {})


def test_without_a_word_of_the_environment_it_is_plain_text() -> None:
    assert client_config("k:9092", {}) == {"bootstrap.servers": "k:9092", "log_level": 0}
    assert Access.of({}).spark() == {}


def test_a_login_and_own_certificates_reach_every_client(login: dict[str, str], tmp_path: Path) -> None:
    access, ca = Access.of(login), str(tmp_path / "ca.crt")
    told = client_config("k:9092", login)
    assert {key: told[key] for key in told if key.startswith(("sasl", "ssl", "security"))} == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "orders",
        "sasl.password": SECRET,
        "ssl.ca.location": ca,
    }
    assert access.kafka_python() == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "orders",
        "sasl_plain_password": SECRET,
        "ssl_cafile": ca,
    }
    assert access.spark() == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": ca,
    }


def test_the_real_client_takes_what_it_is_configured_with(login: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "ca.crt").unlink()
    AdminClient(client_config("127.0.0.1:1", login))


def test_without_certificates_of_its_own_those_are_believed_that_everybody_trusts(
    login: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").unlink()
    assert client_config("k:9092", login)["ssl.ca.location"] == certifi.where()
    assert "kafka.ssl.truststore.location" not in Access.of(login).spark()


def test_no_option_of_sparks_source_has_the_login(login: dict[str, str]) -> None:
    """Options stand in plans, which pages and event logs show."""
    told = str(Access.of(login).spark())
    assert SECRET not in told
    assert "jaas" not in told


def test_a_renewed_password_counts_for_the_next_client(login: dict[str, str], tmp_path: Path) -> None:
    access = Access.of(login)
    (tmp_path / "password").write_text("new")
    assert access.librdkafka()["sasl.password"] == "new"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"KAFKA_SECURITY_PROTOCOL": "TLS"}, r"KAFKA_SECURITY_PROTOCOL is 'TLS' .*PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ({"KAFKA_SASL_MECHANISM": "GSSAPI"}, r"KAFKA_SASL_MECHANISM is 'GSSAPI' .*SCRAM-SHA-512"),
        ({"KAFKA_SASL_MECHANISM": ""}, r"KAFKA_SASL_MECHANISM is None"),
        ({"KAFKA_CREDENTIALS": ""}, r"KAFKA_CREDENTIALS is not set .*username, password and jaas\.conf"),
        ({"KAFKA_CREDENTIALS": "/none"}, r"names /none, where username cannot be read"),
    ],
)
def test_what_cannot_work_is_refused_before_a_client_is_made(
    changes: dict[str, str], says: str, login: dict[str, str]
) -> None:
    with pytest.raises(SettingsError, match=says):
        client_config("k:9092", {**login, **changes})


@pytest.mark.parametrize("name", ["username", "password", "jaas.conf"])
@pytest.mark.parametrize("is_there", [True, False])
def test_each_file_of_a_login_is_needed(name: str, is_there: bool, login: dict[str, str], tmp_path: Path) -> None:
    if is_there:
        (tmp_path / name).write_text("\n")
    else:
        (tmp_path / name).unlink()
    with pytest.raises(SettingsError, match=f"{name} (is empty|cannot be read)") as refused:
        client_config("k:9092", login)
    assert SECRET not in str(refused.value)


def erred(config: dict[str, Any], code: int, says: str | None = None) -> None:
    config["error_cb"](KafkaError(code, says))


def test_a_login_that_is_refused_is_told_where_a_question_ends_without_an_answer(
    login: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in login.items():
        monkeypatch.setenv(name, value)
    config = client_config("k:9092", login)
    silent = KafkaError(KafkaError._TIMED_OUT)
    assert "does not answer" in str(unreachable(silent, "k:9092", "orders"))
    erred(config, KafkaError._TRANSPORT)
    assert "does not answer" in str(unreachable(silent, "k:9092", "orders"))
    erred(config, KafkaError._AUTHENTICATION)
    told = str(unreachable(silent, "k:9092", "orders"))
    assert told.startswith("the Kafka broker refuses its login: user orders, topic orders (k:9092). Check KAFKA_")
    assert SECRET not in told
    assert refusal(silent, "other:9092", "") is None


def test_a_refusal_of_before_is_no_reason_for_ever(login: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    erred(client_config("k:9092", login), KafkaError._AUTHENTICATION)
    monkeypatch.setattr(kafka_client, "FRESH_S", 0.0)
    assert refusal(KafkaError(KafkaError._TIMED_OUT), "k:9092", "") is None


UNBELIEVED = "error:0A000086:SSL routines::certificate verify failed: broker certificate could not be verified"
REFUSED_HANDSHAKES = [
    f"SSL handshake failed: {UNBELIEVED}",
    "SSL handshake failed: error:0A000410:SSL routines::ssl/tls alert handshake failure: SSL alert number 40",
    "SSL handshake failed: error:0A00042E:SSL routines::tlsv1 alert protocol version: SSL alert number 70",
    "SSL handshake failed: error:0A00010B:SSL routines::wrong version number",
]
CUT_HANDSHAKES = [
    "SSL handshake failed: Disconnected: connection reset by peer: connecting to a PLAINTEXT broker listener?",
    "SSL handshake failed: SSL transport error: Connection reset by peer",
    "SSL handshake failed: error:0A000126:SSL routines::unexpected eof while reading",
    "",
]
"""What librdkafka says (2.16.0); the second and third of those that were cut off by its source."""


@pytest.mark.parametrize("says", CUT_HANDSHAKES)
def test_a_handshake_that_was_cut_off_is_a_broker_that_is_away(says: str, login: dict[str, str]) -> None:
    """One that starts again resets connections; what is remembered of it would end drivers for a minute."""
    cut = KafkaError(KafkaError._SSL, says)
    assert isinstance(unreachable(cut, "k:9092", "orders"), UnreachableError)
    erred(client_config("k:9092", login), KafkaError._SSL, says)
    assert isinstance(unreachable(KafkaError(KafkaError._TIMED_OUT), "k:9092", "orders"), UnreachableError)


@pytest.mark.parametrize("says", REFUSED_HANDSHAKES)
def test_a_handshake_that_was_refused_is_no_silence(says: str, login: dict[str, str]) -> None:
    assert isinstance(unreachable(KafkaError(KafkaError._SSL, says), "k:9092", "orders"), AccessError)
    erred(client_config("k:9092", login), KafkaError._SSL, says)
    told = unreachable(KafkaError(KafkaError._TIMED_OUT), "k:9092", "orders")
    assert isinstance(told, AccessError)
    assert "is not the one whose certificate is believed" in str(told)


def test_a_cut_handshake_does_not_take_back_a_refusal(login: dict[str, str]) -> None:
    config = client_config("k:9092", login)
    erred(config, KafkaError._AUTHENTICATION)
    erred(config, KafkaError._SSL, CUT_HANDSHAKES[0])
    assert isinstance(unreachable(KafkaError(KafkaError._TIMED_OUT), "k:9092", "orders"), AccessError)


def test_create_asks_again_after_a_handshake_that_was_cut_off() -> None:
    with pytest.raises(wait.NotYetError, match="reset by peer"):
        broker.KafkaCluster("k:9092")._fail(KafkaError(KafkaError._SSL, CUT_HANDSHAKES[0]), "topic orders")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "does not let it use the topic: this client, topic other"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "does not let it use the transactional id"),
    ],
)
def test_what_a_user_may_not_do_is_no_silence(code: int, says: str) -> None:
    assert says in str(unreachable(KafkaError(code), "k:9092", "other"))


def test_a_disk_of_a_broker_that_is_full_or_failed_is_named_with_the_way_out() -> None:
    """Whoever meets it: clients ask again before they say so."""
    told = unreachable(KafkaError(KafkaError.KAFKA_STORAGE_ERROR), "k:9092", "orders")
    assert isinstance(told, UnreachableError)
    assert told.what.startswith("a disk of the Kafka broker is full or failed: ")
    assert told.what.endswith("topic orders")
    assert "`kafka-log-dirs.sh --describe`" in told.todo
    assert "start that broker again" in told.todo


def test_a_partition_that_its_only_broker_lost_has_no_leader() -> None:
    """What a client is told once the folder is offline."""
    told = unreachable(KafkaError(KafkaError.LEADER_NOT_AVAILABLE), "k:9092", "orders")
    assert isinstance(told, UnreachableError)
    assert told.what == "a partition of topic orders has no leader"
    assert "its disk is full or failed" in told.todo


def give_rights(folder: Path) -> None:
    file = folder / "grants.json"
    file.write_text(json.dumps({"bootstrap": NOBODY.kafka_bootstrap, "users": {"orders": []}}))
    (folder / "orders").write_text("x")
    if grant.main([str(file), f"--passwords={folder}", "--deadline-s=0"]) == AccessError.exit_code:
        raise AccessError("the Kafka broker refuses its login", "", "")


@pytest.mark.parametrize(
    "ask",
    [
        lambda _: KafkaSource(NOBODY).topic_ids(),
        lambda _: SinkTopics(NOBODY, ["accepted"]).ids(),
        lambda _: broker_probe.ask(NOBODY, ["accepted"]),
        lambda _: broker.KafkaCluster(NOBODY.kafka_bootstrap).topics(["clicks.accepted"]),
        give_rights,
    ],
    ids=["source", "sinks", "probe", "create", "grant"],
)
def test_whoever_asks_hears_what_its_client_was_told(
    ask: Callable[[Path], Any], login: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client for administration keeps it to itself until it is polled; here it is told that nobody is there."""

    def refused(bootstrap: str, _: object) -> None:
        kafka_client._refused[bootstrap] = ("refuses its login", time.monotonic())

    (tmp_path / "ca.crt").unlink()
    for name, value in login.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(kafka_client, "_remember", refused)
    monkeypatch.setattr(broker, "REQUEST_TIMEOUT_S", 0.3)
    monkeypatch.setattr(grant, "REQUEST_S", 0.3)
    with pytest.raises(AccessError, match="refuses its login"):
        ask(tmp_path)
