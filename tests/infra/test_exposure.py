"""What is reached from outside the cluster, in which way, and what contradicts itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.components import history_server, kafka, object_store
from infra.settings import Settings, SettingsError
from infra.settings.exposure import OUTSIDE
from infra.settings.profiles import PROFILES
from tests.infra.platform import PLAIN, deploy_once, settings

BROUGHT: dict[str, Any] = {
    "kafka": {"external": "broker.example:9092"},
    "object_store": {"external": {"endpoint": "https://s3.example", "credentials_secret": "vault/s3"}},
}
BALANCED = {"by": "LoadBalancer", "host": "a.example"}
INGRESS = {"by": "Ingress", "host": "a.example"}


def reached(wanted: Settings) -> dict[str, str | None]:
    """Addresses of the four, None of what is not reached from outside."""
    store, history = object_store.outputs(wanted), history_server.outputs(wanted)
    return {
        "kafka": kafka.outputs(wanted).external_bootstrap,
        "object_store": store.external_endpoint,
        "console": store.external_console,
        "history_server": history.external_url if history else None,
    }


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_production_is_closed_and_a_cluster_of_this_machine_is_open(profile: str) -> None:
    found = reached(settings(profile=profile))
    if profile == "production":
        assert set(found.values()) == {None}
    else:
        assert found["console"] == f"https://127.0.0.1:{OUTSIDE['console']}"
        assert None not in found.values()
        plain = reached(settings(profile=profile, security=PLAIN))
        assert plain["console"] == f"http://127.0.0.1:{OUTSIDE['console']}"


def test_each_is_chosen_for_itself() -> None:
    access = {
        "kafka": {"by": "LoadBalancer", "host": "kafka-{node}.example"},
        "console": {"by": "Ingress", "host": "minio.example", "tls_secret": "minio-tls"},
        "history_server": {"by": "NodePort", "host": "node.example", "port": 31000, "node_port": 31000},
    }
    assert reached(settings(profile="production", external_access=access)) == {
        "kafka": "kafka-0.example:9092,kafka-1.example:9093,kafka-2.example:9094",
        "object_store": None,
        "console": "https://minio.example",
        "history_server": "http://node.example:31000",
    }


def test_one_is_closed_on_a_profile_that_opens_it() -> None:
    wanted = settings(external_access={"console": {"by": "none"}})
    assert [name for name, where in reached(wanted).items() if where is None] == ["console"]
    values = deploy_once(wanted).values("minio")
    assert {name: way["by"] for name, way in values["external"].items()} == {"api": "NodePort", "console": "none"}


def test_what_a_profile_opens_means_nothing_where_it_is_brought() -> None:
    found = reached(settings(**BROUGHT))
    assert (found["kafka"], found["object_store"], found["console"]) == (
        "broker.example:9092",
        "https://s3.example",
        None,
    )


def _access(**ways: object) -> dict[str, object]:
    return {"profile": "production", "external_access": ways}


WRONG: list[tuple[dict[str, object], str]] = [
    (_access(kafka=INGRESS), "kafka.by: an Ingress speaks HTTP and Kafka does not"),
    (_access(console={"by": "Ingress"}), "console.host: has to be set with Ingress"),
    (_access(history_server={"by": "LoadBalancer"}), "history_server.host: has to be set with LoadBalancer"),
    (_access(console={"node_port": 30901}), "console.node_port: external_access.console.by is none"),
    (_access(console=BALANCED | {"node_port": 30901}), "console.node_port: belongs to NodePort"),
    (_access(console=BALANCED | {"tls_secret": "a"}), "console.tls_secret: belongs to Ingress"),
    (_access(console={"by": "NodePort", "ingress_class": "a"}), "console.ingress_class: belongs to Ingress"),
    (_access(console={"by": "NodePort", "annotations": {"a": "b"}}), "console.annotations: belong to LoadBalancer"),
    (_access(kafka=BALANCED), "kafka.host: each of 3 brokers has a load balancer of its own, got 'a.example'"),
    (_access(console=INGRESS | {"host": "a-{node}"}), "console.host: {node} stands for brokers"),
    (_access(kafka={"by": "NodePort", "host": "a-{node}"}), "kafka.host: {node} stands for brokers"),
    (_access(console=INGRESS, history_server=INGRESS), "history_server.port: a.example:80 is that of console already"),
    (
        _access(kafka={"by": "NodePort"}, console={"by": "NodePort", "node_port": 30094}),
        "console.node_port: 30094 is that of kafka already",
    ),
    (BROUGHT | _access(kafka={"by": "NodePort"}), "kafka.by: kafka.external is not ours"),
    (BROUGHT | _access(console=BALANCED), "console.by: object_store.external is not ours"),
    (
        {"history_server": {"enabled": False}, **_access(history_server={"by": "NodePort"})},
        "history_server.by: history_server.enabled is false",
    ),
    (_access(enabled=True), "enabled: no such setting; allowed are kafka, object_store, console, history_server"),
]


@pytest.mark.parametrize(("config", "said"), WRONG, ids=lambda one: json.dumps(one)[:60])
def test_what_contradicts_itself_is_refused_by_name(config: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(**config)
    (line,) = refused.value.lines
    assert line.startswith(f"external_access.{said}")
