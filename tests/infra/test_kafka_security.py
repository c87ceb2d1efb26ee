"""Each pipeline has a login of Kafka's with rights on its own names; nodes have certificates of our authority."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from infra.components import kafka_security
from infra.settings import SettingsError
from tests.charts.render import environment, render
from tests.infra.platform import Deployed, crds, deploy, settings

PIPELINES = {"user_counts": {}, "clicks": {"job": "own.clicks", "topic": "clicks", "create_topic": False}}
NAMESPACE = "effectively-once"


def made(folder: Path, **security: Any) -> Deployed:
    wanted = settings(profile="production", security={"kafka": True, **security}, pipelines=PIPELINES)
    return deploy(wanted, crds(folder))


def data(one: Deployed, name: str) -> dict[str, str]:
    found = one.engine.of("Secret")[name]
    assert "data" in found.secret, "the state keeps it encrypted"
    return {key: base64.b64decode(text).decode() for key, text in found.inputs["data"].items()}


def test_both_sides_have_the_same_password_and_every_pipeline_another(tmp_path: Path) -> None:
    one = made(tmp_path)
    users = data(one, "kafka-users-0-0")
    assert set(users) == {"user_counts", "clicks"}
    assert len({*users.values()}) == 2
    for user, password in users.items():
        own = data(one, f"{user.replace('_', '-')}-kafka")
        assert (own["username"], own["password"]) == (user, password)
        assert f'password="{password}"' in own["jaas.conf"]


def test_certificates_and_authorities_survive_later_updates(tmp_path: Path) -> None:
    secrets = made(tmp_path).engine.of("Secret")
    for name in ("platform-authority-0", "kafka-tls-0-0", "kafka-admin-tls-0-0"):
        assert secrets[name].ignore_changes == ("data",), name


def test_everybody_believes_one_authority_and_for_a_change_both(tmp_path: Path) -> None:
    for number, believed in ((0, 1), (1, 2), (2, 2)):
        one = made(tmp_path, authority=number)
        names = (f"kafka-tls-{number}-0", f"kafka-admin-tls-{number}-0", "clicks-kafka")
        bundles = {data(one, name)["ca.crt"] for name in names}
        assert [bundle.count("BEGIN CERTIFICATE") for bundle in bundles] == [believed]
        kept = {name for name in one.engine.of("Secret") if name.startswith("platform-authority")}
        assert kept == {f"platform-authority-{n}" for n in range(max(0, number - 1), number + 1)}


def test_no_key_of_an_authority_is_where_pods_mount_it(tmp_path: Path) -> None:
    one = made(tmp_path)
    key = data(one, "platform-authority-0")["tls.key"].splitlines()[1]
    for name in one.engine.of("Secret"):
        if name != "platform-authority-0":
            assert key not in str(data(one, name)), name
    assert "platform-authority" not in str([each.inputs for each in one.engine.of("Chart").values()])


def test_the_program_tells_no_password_and_no_key(tmp_path: Path) -> None:
    one = made(tmp_path)
    told = str([each.inputs for each in one.engine.of("Chart").values()]) + str(one.platform)
    assert "PRIVATE KEY" not in told
    for password in data(one, "kafka-users-0-0").values():
        assert password not in told


def test_a_pipeline_may_use_its_own_names_alone() -> None:
    wanted = settings(pipelines=PIPELINES)
    own, other = wanted.pipelines["user_counts"], wanted.pipelines["clicks"]
    rights = list(kafka_security.rights(own))
    for kind in ("topic", "transactional_id"):
        writes = {(one.name, one.prefixed) for one in rights if one.kind == kind and "WRITE" in one.operations}
        assert writes == {("user_counts.", True)}
    named = {(one.kind, one.name): one.operations for one in rights}
    assert "CREATE" in named["topic", own.topic]
    assert not [one for one in rights if other.identity in one.name]
    reading = {(one.kind, one.name): one.operations for one in kafka_security.rights(other)}
    assert "CREATE" not in reading["topic", "clicks"], "it is somebody else's to make"


def test_drivers_log_in_and_are_started_anew_for_another_password(tmp_path: Path) -> None:
    pods = []
    for rotation in (0, 1):
        values = made(tmp_path, rotation=rotation).engine.of("Chart")["clicks"].inputs["values"]
        spec = render("streaming-pipeline", values, "clicks").one("SparkApplication", "clicks")["spec"]
        pods.append(spec["driver"]["template"])
        assert environment(pods[-1]["spec"])["KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"
    assert pods[0]["metadata"] != pods[1]["metadata"]


def test_nodes_are_believed_for_every_name_that_they_tell_clients(tmp_path: Path) -> None:
    hosts = kafka_security.hosts(settings(profile="production"))
    assert {"kafka.effectively-once.svc", "*.kafka-nodes.effectively-once.svc.cluster.local"} <= {*hosts}
    assert "*.kafka-controller-nodes.effectively-once.svc.cluster.local" in hosts
    outside = {"kafka": {"by": "LoadBalancer", "host": "kafka-{node}.example"}}
    named = kafka_security.hosts(settings(profile="production", external_access=outside))
    assert {f"kafka-{node}.example" for node in range(3)} <= {*named}


def test_it_is_that_of_our_own_broker() -> None:
    with pytest.raises(SettingsError, match=r"security\.kafka: it is that of our own broker"):
        settings(security={"kafka": True}, kafka={"external": "b:1"})


def test_without_it_nothing_is_made(tmp_path: Path) -> None:
    plain = deploy(settings(pipelines=PIPELINES), crds(tmp_path))
    assert not [name for name in plain.engine.of("Secret") if "kafka" in name or "authority" in name]
    assert "security" not in plain.engine.of("Chart")["kafka"].inputs["values"]
