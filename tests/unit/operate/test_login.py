"""Who runs something on a secured stack logs in by variables and files; nothing of it is on a command line or left."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from effectively_once.kafka_client import Access, client_config
from effectively_once.store.s3_client import CERTIFICATES, connections
from infra.certificates import make_authority
from infra.cluster.login import TOOLS, logged_in, write_login
from infra.cluster.platform import AccessError
from infra.components.clients import jaas
from tests.harness.adapters.broker_tool import command_of
from tests.harness.adapters.pod_login import PodLogin
from tests.harness.adapters.rendering import RUN_LABEL
from tests.unit.operate.cluster import OUTPUT, PASSWORD, PIPELINES, PLATFORM, Cluster, access, secret

WORD = "the-word-of-campaigns"
KAFKA = {**OUTPUT["kafka"], "certificates": "kafka-tls", "secret": "platform-campaigns-kafka"}
STORE = {**OUTPUT["object_store"], "external_endpoint": "https://127.0.0.1:12000", "certificates": "store-tls"}


@pytest.fixture(scope="module")
def authority() -> str:
    return make_authority("a platform").certificate


@pytest.fixture
def secured(authority: str) -> Cluster:
    cluster = Cluster().ready()
    login = {"username": "campaigns", "password": WORD, "jaas.conf": jaas("SCRAM-SHA-512", "campaigns", WORD)}
    cluster.put_secret(secret(KAFKA["secret"], PIPELINES, **login, **{"ca.crt": authority}))
    cluster.put_secret(secret("store-tls", PLATFORM, **{"ca.crt": authority, "tls.key": "a key"}))
    return cluster


def test_clients_of_the_library_log_in_while_the_block_lasts(secured: Cluster, authority: str) -> None:
    before = dict(os.environ)
    with logged_in(access(secured, kafka=KAFKA, object_store=STORE)) as endpoints:
        config = client_config(endpoints.kafka_bootstrap)
        assert (config["security.protocol"], config["sasl.username"], config["sasl.password"]) == (
            "SASL_SSL",
            "campaigns",
            WORD,
        )
        assert Path(str(config["ssl.ca.location"])).read_text() == authority
        assert Path(os.environ[CERTIFICATES]).read_text() == authority
        assert os.environ["AWS_SECRET_ACCESS_KEY"] == PASSWORD
        connections(1.0)
        files = [one for one in Path(os.environ["KAFKA_CREDENTIALS"]).parent.rglob("*") if one.is_file()]
        assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
        assert "a key" not in "".join(one.read_text() for one in files), "the server's key is the server's"
    assert dict(os.environ) == before
    assert not [one for one in files if one.exists()]


def test_the_brokers_own_tools_log_in_without_a_password_among_their_words(
    secured: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in write_login(access(secured, kafka=KAFKA), tmp_path).items():
        monkeypatch.setenv(name, value)
    words = command_of(Path("java"), Path("/jars"), "a.Tool", "b:1")
    assert words[words.index("a.Tool") :] == ["a.Tool", "--bootstrap-server", "b:1", "--command-config", words[-1]]
    (login,) = (word.partition("=")[2] for word in words if "login.config" in word)
    assert WORD in Path(login).read_text()
    said = dict(line.split("=", 1) for line in Path(words[-1]).read_text().splitlines())
    assert said["ssl.truststore.location"] == str(Access.of(os.environ).certificates)
    assert Path(words[-1]).name == TOOLS
    assert WORD not in " ".join(words) + Path(words[-1]).read_text()


def test_a_stack_that_takes_plain_connections_is_asked_for_no_secret_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write_login(access(Cluster().ready()), tmp_path) == {}
    assert not [*tmp_path.iterdir()]
    monkeypatch.delenv("KAFKA_SECURITY_PROTOCOL", raising=False)
    assert command_of(Path("java"), Path("/jars"), "a.Tool", "b:1") == [
        *("java", "-XX:TieredStopAtLevel=1", "-cp", "/jars/*", "a.Tool", "--bootstrap-server", "b:1")
    ]


def test_a_stack_without_a_login_for_campaigns_says_how_to_have_one(secured: Cluster, tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"nobody has one for this: .*security\.campaigns true"):
        write_login(access(secured, kafka={**KAFKA, "secret": None}), tmp_path)
    secured.put_secret(secret(KAFKA["secret"], PIPELINES, username="campaigns"))
    with pytest.raises(AccessError, match=r"platform-campaigns-kafka lacks ca\.crt, jaas\.conf, password"):
        write_login(access(secured, kafka=KAFKA), tmp_path)


def test_pods_of_a_run_have_logins_that_are_not_bound_to_a_deployed_pipelines_names(secured: Cluster) -> None:
    deployed: dict[str, Any] = {
        "kafkaClient": {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "secret": "user-counts-kafka"},
        "credentialsSecret": "user-counts-object-store",
    }
    reached = access(secured, kafka=KAFKA, object_store=STORE)
    login = PodLogin.of(reached.platform, reached.endpoints())
    assert PASSWORD not in repr(login)
    values = login.values("r-7", deployed)
    assert values["kafkaClient"] == {**deployed["kafkaClient"], "secret": KAFKA["secret"]}
    (own,) = login.objects("r-7")
    assert (own["metadata"]["name"], own["metadata"]["labels"]) == (values["credentialsSecret"], {RUN_LABEL: "r-7"})
    assert sorted(own["data"]) == ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
    plain = access(Cluster().ready())
    nothing = PodLogin.of(plain.platform, plain.endpoints())
    assert (nothing.values("r-7", deployed), nothing.objects("r-7")) == ({}, [])
