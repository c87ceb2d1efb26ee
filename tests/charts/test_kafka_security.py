"""With `security` every listener of Kafka is encrypted and knows who is there; without it nothing is changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from effectively_once.operate.grant import Grants
from effectively_once.operate.grants_file import read_grants
from infra.components.kafka_security import MAY_ALL
from infra.values.kafka import External, KafkaValues
from tests.charts.policies import Endpoint, allowed
from tests.charts.render import NAMESPACE, Object, Rendered, environment, mounted, render
from tests.charts.samples import IMAGE
from tests.charts.samples import KAFKA_SECURITY as SECURITY
from tests.charts.test_kafka import properties

(RIGHT,) = SECURITY.users["orders"]
OUTSIDE = External(by="LoadBalancer", host="kafka-{node}.example", port=9092)


def kafka(**changes: Any) -> Rendered:
    return render("kafka", KafkaValues(image=IMAGE, **{"security": SECURITY, **changes}).to_helm())


def listeners(objects: Rendered, name: str) -> dict[str, str]:
    """Return listener -> protocol, of those that a node has."""
    found = properties(objects, name)
    protocols = dict(one.split(":") for one in found["listener.security.protocol.map"].split(","))
    return {one.split(":")[0]: protocols[one.split(":")[0]] for one in found["listeners"].split(",")}


@pytest.mark.parametrize("controllers", [0, 3])
def test_no_listener_is_plain_and_each_asks_who_is_there(controllers: int) -> None:
    objects = kafka(nodes=3, controllers=controllers, external=OUTSIDE)
    for name in ("kafka", "kafka-controller")[: 1 + bool(controllers)]:
        found = properties(objects, name)
        for listener, protocol in listeners(objects, name).items():
            key = f"listener.name.{listener.lower()}"
            if listener in ("CONTROLLER", "NODES"):
                assert (protocol, found[f"{key}.ssl.client.auth"]) == ("SSL", "required"), listener
            else:
                assert protocol == "SASL_SSL", listener
                assert "ScramLoginModule" in found[f"{key}.scram-sha-512.sasl.jaas.config"]
        assert found["sasl.enabled.mechanisms"] == "SCRAM-SHA-512"


@pytest.mark.parametrize("name", ["kafka", "kafka-controller"])
def test_who_has_no_right_may_do_nothing_on_brokers_and_on_controllers(name: str) -> None:
    """Controllers decide on what changes the log of the cluster."""
    found = properties(kafka(nodes=3, controllers=3), name)
    assert found["authorizer.class.name"].endswith("StandardAuthorizer")
    assert found["allow.everyone.if.no.acl.found"] == "false"
    assert found["super.users"].split(";") == [f"User:{name}" for name in MAY_ALL]


def test_brokers_copy_from_each_other_where_certificates_are_asked_for() -> None:
    found = properties(kafka(nodes=3))
    assert found["inter.broker.listener.name"] == "NODES"
    assert "NODES://" in found["advertised.listeners"]


def test_no_property_has_a_secret_and_nodes_read_their_key_from_a_file() -> None:
    objects = kafka()
    found = properties(objects)
    assert not [key for key in found if "password" in key or "key.password" in key]
    (pod,) = (pod for name, pod in objects.pods() if name.startswith("StatefulSet/"))
    folder = found["ssl.keystore.location"].rpartition("/")[0]
    assert mounted(pod)[folder]["secret"] == {"secretName": "kafka-tls", "defaultMode": 0o440}


def grant_job(objects: Rendered) -> Object:
    (found,) = objects.of("Job")
    return found


def test_the_job_that_gives_rights_reads_what_the_program_takes(tmp_path: Path) -> None:
    objects = kafka()
    text = objects.one("ConfigMap", "kafka-grants")["data"]["grants.json"]
    (tmp_path / "grants.json").write_text(text)
    (tmp_path / "orders").write_text("x")
    grants, _ = read_grants(Grants, tmp_path / "grants.json", tmp_path)
    (right,) = grants.users["orders"]
    assert json.loads(right.model_dump_json()) == json.loads(RIGHT.model_dump_json())
    assert grants.bootstrap == f"kafka.{NAMESPACE}.svc:9094"
    pod = grant_job(objects)["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == SECURITY.grant_image
    assert environment(pod)["KAFKA_SECURITY_PROTOCOL"] == "SSL"


def test_renewed_certificates_start_nodes_anew() -> None:
    before, after = (
        kafka(security=SECURITY.model_copy(update={"version": version})).one("StatefulSet", "kafka")["spec"]["template"]
        for version in ("0-0", "0-1")
    )
    assert before["metadata"] != after["metadata"]
    assert before["spec"] == after["spec"]


@pytest.mark.parametrize("controllers", [0, 3])
def test_only_nodes_and_that_job_reach_the_listener_of_nodes(controllers: int) -> None:
    objects = kafka(nodes=3, controllers=controllers)
    policies = [{**one, "metadata": {"namespace": NAMESPACE, **one["metadata"]}} for one in objects.of("NetworkPolicy")]
    sets = objects.one("StatefulSet", "kafka")["spec"]["template"]["metadata"]["labels"]
    one, other = (Endpoint("broker", f"10.0.0.{n}", NAMESPACE, sets, "platform") for n in (1, 2))
    job = grant_job(objects)["spec"]["template"]["metadata"]["labels"]
    grant = Endpoint("grant", "10.0.0.3", NAMESPACE, job, "platform")
    pipeline = {"app.kubernetes.io/part-of": "effectively-once", "app.kubernetes.io/name": "streaming-pipeline"}
    driver = Endpoint("driver", "10.0.0.4", "pipelines", pipeline, "x")
    assert allowed(policies, one, other, 9094)
    assert allowed(policies, grant, one, 9094)
    assert not allowed(policies, grant, one, 9092)
    assert not allowed(policies, driver, one, 9094)
    assert allowed(policies, driver, one, 9092)


def test_without_it_everything_is_as_it_was() -> None:
    objects = render("kafka", KafkaValues(image=IMAGE).to_helm())
    assert properties(objects)["listeners"] == "INTERNAL://:9092,CONTROLLER://:9093"
    assert not objects.of("Job")
    assert "9094" not in str(objects.objects)
