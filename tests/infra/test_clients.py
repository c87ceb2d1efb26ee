"""Servers of others: logins and certificates go from the Secrets of whoever has them into the pods that need them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from infra.components.clients import jaas
from infra.components.credentials import pick
from infra.settings import SettingsError
from tests.charts.render import environment, mounted, render, secret_at
from tests.infra.platform import Deployed, deploy_once, secret_value, settings

AUDIT = {"job": "own.audit", "kafka_credentials_secret": "own/login"}
PIPELINES = {"user_counts": {"result_store": True}, "audit": AUDIT}
LOGIN = {"credentials_secret": "vault/kafka", "ca_secret": "vault/kafka-ca"}
KEYS = {"credentials_secret": "vault/s3", "session_token": True}
STORE = {"endpoint": "https://s3.example", "region": "eu-north-1", "ca_secret": "vault/s3-ca"}
DATABASE = {"host": "db", "credentials_secret": "vault/db", "ssl_mode": "verify-full", "ca_secret": "vault/db-ca"}
NAMESPACE = "effectively-once-pipelines"


def deployed(security: dict[str, Any] = LOGIN, store: dict[str, Any] = KEYS) -> Deployed:
    wanted = settings(
        kafka={"external": "b.example:9093", "security": security},
        object_store={"external": {**STORE, **store}},
        result_store={"external": DATABASE},
        pipelines=PIPELINES,
    )
    return deploy_once(wanted)


def data(one: Deployed, name: str, namespace: str = NAMESPACE) -> dict[str, str]:
    secret = one.engine.of("Secret")[f"{name}-{namespace}"]
    assert "data" in secret.secret, "the state keeps it encrypted"
    assert (secret.inputs["metadata"]["name"], secret.inputs["metadata"]["namespace"]) == (name, namespace)
    return dict(secret.inputs["data"])


def pods(one: Deployed, release: str, chart: str = "streaming-pipeline") -> dict[str, Any]:
    return dict(render(chart, one.values(release), release).pods())


def test_a_login_is_copied_with_what_the_jvm_reads_and_with_the_brokers_certificate() -> None:
    one = deployed()
    copied = data(one, "user-counts-kafka")
    assert copied == {
        "username": secret_value("username"),
        "password": secret_value("password"),
        "ca.crt": secret_value("ca.crt"),
        "jaas.conf": base64.b64encode(jaas("SCRAM-SHA-512", "found-username", "found-password").encode()).decode(),
    }
    waits = one.engine.below(one.engine.of("Chart")["user-counts"])
    assert {
        "user-counts-kafka-effectively-once-pipelines",
        "object-store-certificates-effectively-once-pipelines",
    } <= waits


def test_a_pipeline_may_have_a_login_of_its_own() -> None:
    own = data(deployed(), "audit-kafka")
    assert (own["password"], own["ca.crt"]) == (secret_value("password", "own"), secret_value("ca.crt"))


@pytest.mark.parametrize("release", ["user-counts", "audit"])
def test_every_pod_of_a_pipeline_finds_them_where_its_environment_says(release: str) -> None:
    one = deployed()
    for name, pod in pods(one, release).items():
        told = environment(pod)
        assert told["KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL", name
        assert told["KAFKA_SASL_MECHANISM"] == "SCRAM-SHA-512"
        assert told["AWS_REGION"] == "eu-north-1"
        assert told["AWS_SESSION_TOKEN"]["secretKeyRef"]["key"] == "AWS_SESSION_TOKEN"
        assert mounted(pod)[told["KAFKA_CREDENTIALS"]]["secret"]["secretName"] == f"{release}-kafka"
        assert secret_at(pod, told["AWS_CA_BUNDLE"]) == ("object-store-certificates", "ca.crt")
        if release == "user-counts":
            assert told["PGSSLMODE"] == "verify-full"
            assert secret_at(pod, told["PGSSLROOTCERT"])[0] == "result-store-certificates"


def test_the_jvm_of_driver_and_executors_reads_the_login_from_its_file() -> None:
    values = deployed().values("user-counts")
    spec = render("streaming-pipeline", values, "user-counts").one("SparkApplication", "user-counts")["spec"]
    for role in ("driver", "executor"):
        assert "login.config=/var/run/effectively-once/kafka/jaas.conf" in spec[role]["javaOptions"]
    assert spec["sparkConf"]["spark.hadoop.fs.s3a.endpoint.region"] == "eu-north-1"


def test_the_history_server_reads_the_store_in_the_same_way() -> None:
    one = deployed()
    assert data(one, "object-store-certificates", "effectively-once") == {"ca.crt": secret_value("ca.crt")}
    (pod,) = pods(one, "history-server", "history-server").values()
    told = environment(pod)
    assert (told["AWS_REGION"], told["AWS_CA_BUNDLE"]) == ("eu-north-1", "/var/run/effectively-once/s3/ca.crt")
    assert "endpoint.region=eu-north-1" in told["SPARK_HISTORY_OPTS"]


def test_pods_with_an_identity_of_their_own_have_no_keys() -> None:
    role = {"role": "arn:aws:iam::1:role/streams", "issuer": "https://sts.example:8443"}
    one = deployed(store={"web_identity": role, "region": "us-east-1"})
    assert not [name for name in one.engine.of("Secret") if name.startswith("object-store-credentials")]
    for release, chart in (("user-counts", "streaming-pipeline"), ("history-server", "history-server")):
        for pod in pods(one, release, chart).values():
            told = environment(pod)
            assert "AWS_ACCESS_KEY_ID" not in told
            assert (told["AWS_ROLE_ARN"], told["AWS_ENDPOINT_URL_STS"]) == (role["role"], role["issuer"])
            assert told["AWS_REGION"] == "us-east-1", "without one the JVM asks the STS of AWS, whatever is named"
            folder, _, file = told["AWS_WEB_IDENTITY_TOKEN_FILE"].rpartition("/")
            (source,) = mounted(pod)[folder]["projected"]["sources"]
            assert source["serviceAccountToken"]["path"] == file
            assert source["serviceAccountToken"]["audience"] == "sts.amazonaws.com"
    ports = one.values("user-counts")["networkPolicies"]["objectStore"]["ports"]
    assert ports == [443, 8443]


def test_certificates_alone_need_no_login() -> None:
    wanted = settings(
        kafka={"external": "b:1", "security": {"protocol": "SSL", "ca_secret": "vault/kafka-ca"}},
        pipelines={"user_counts": {}},
    )
    one = deploy_once(wanted)
    assert data(one, "user-counts-kafka") == {"ca.crt": secret_value("ca.crt")}
    values = one.values("user-counts")
    spec = render("streaming-pipeline", values, "user-counts").one("SparkApplication", "user-counts")["spec"]
    assert "login.config" not in spec["driver"]["javaOptions"]


def test_a_password_cannot_end_its_quotes() -> None:
    """Else what is behind them were options of the login, or an error that shows it."""
    text = jaas("PLAIN", 'a"b', 'c\\" debug="true')
    assert 'plain.PlainLoginModule required username="a\\"b" password="c\\\\\\" debug=\\"true"; };' in text
    assert "scram.ScramLoginModule" in jaas("SCRAM-SHA-256", "a", "b")


@pytest.mark.parametrize(("found", "says"), [({"rootUser": "dQ=="}, "lacks rootPassword"), (None, "it has: none")])
def test_a_secret_that_lacks_a_key_is_named_and_no_value_is_told(found: dict[str, str] | None, says: str) -> None:
    with pytest.raises(SettingsError, match="Secret vault/s3") as refused:
        pick(found, {"AWS_ACCESS_KEY_ID": "rootUser", "AWS_SECRET_ACCESS_KEY": "rootPassword"}, "vault/s3")
    assert says in str(refused.value)
    assert "dQ==" not in str(refused.value)
