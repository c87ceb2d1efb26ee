"""A whole deployment as the program renders it, with everybody who might connect to somebody in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any, Final

from infra.components import history_server, kafka, monitoring, network, object_store, result_store, spark_operator
from infra.components import streaming_pipeline as pipeline_component
from infra.components.namespaces import names
from infra.settings import Settings
from infra.values import flows
from infra.values.common import Values
from infra.values.network import METADATA, NODE_LOCAL_DNS, OUR_LABEL
from tests.charts import samples
from tests.charts.policies import Endpoint, Object
from tests.charts.render import render
from tests.infra.platform import PLAIN, settings

NAME: Final = "app.kubernetes.io/name"
COMPONENT: Final = "app.kubernetes.io/component"
KINDS: Final = {
    "kafka": flows.BROKER,
    "minio": flows.OBJECT_STORE,
    "postgres": flows.RESULT_STORE,
    "spark-operator": flows.OPERATOR,
    "history-server": flows.HISTORY,
    "minio-grant": flows.OBJECT_GRANT,
    "postgres-grant": flows.RESULT_GRANT,
}
STRANGER, METADATA_ADDRESS, FOREIGN, ADDRESS = "stranger", "metadata of a cloud", "pod of others", "address outside"
API_IP: Final = "172.18.0.2"
PAYMENTS, GATEWAYS, ELSEWHERE, SYSTEM = "payments", "gateways", "elsewhere", "kube-system"
LAPTOP, TEAM, SECURED = "laptop", "team", "secured"
# With everything that a setting opens, but for the ways in from outside.
_TEAM: Final[dict[str, Any]] = {
    "profile": "production",
    "images": {"monitoring": "effectively-once-monitoring:0123456789ab"},
    "monitoring": {
        "enabled": True,
        "clients": [GATEWAYS],
        "receivers": [{"namespace": PAYMENTS, "ports": [8080]}],
    },
    "network_policies": {"api_server": [f"{API_IP}/32"]},
    "kafka": {"clients": [GATEWAYS]},
    "object_store": {"clients": [GATEWAYS]},
    "result_store": {"clients": [GATEWAYS]},
    "pipelines": {
        "user_counts": {"service": {"module": "own.answers"}, "backup": {"schedule": "@daily"}},
        "clicks": {
            "job": "own.clicks",
            "result_store": True,
            "service": {"module": "own.answers"},
            "backup": {"schedule": "@daily"},
            "egress": [{"namespace": PAYMENTS, "ports": [8080]}],
        },
    },
}
WANTED: Final = {
    LAPTOP: settings(profile="ci", security=PLAIN, pipelines={"user_counts": {}, "clicks": {"job": "own.clicks"}}),
    TEAM: settings(**_TEAM, security=PLAIN),
    SECURED: settings(**_TEAM | {"monitoring": {"enabled": True, "operator_objects": True, "clients": [GATEWAYS]}}),
}


@dataclass(frozen=True, eq=False)
class Deployment:
    """What is in force, who is there, and which of the table's conditions hold."""

    values: tuple[Object, ...]
    objects: tuple[Object, ...]
    endpoints: tuple[Endpoint, ...]
    marks: frozenset[str]

    @property
    def policies(self) -> list[Object]:
        """Of all namespaces."""
        return [one for one in self.objects if one["kind"] == "NetworkPolicy"]

    @property
    def ours(self) -> list[Endpoint]:
        """Pods in namespaces of the stack."""
        return [one for one in self.endpoints if one.owner]

    def one(self, kind: str, owner: str = "") -> Endpoint:
        """The first one of a kind; of that pipeline, if one is named."""
        return next(one for one in self.endpoints if one.kind == kind and owner in ("", one.owner))


def releases(wanted: Settings) -> Iterator[tuple[str, str, str, Values]]:
    """Yield release, chart, namespace and values of everything that is deployed."""
    platform = wanted.namespace
    for release, chart, namespace, values in (
        ("kafka", "kafka", platform, kafka.values(wanted)),
        ("minio", "minio", platform, object_store.values(wanted)),
        ("postgres", "postgres", platform, result_store.values(wanted)),
        ("spark-operator", "spark-operator", wanted.operator_namespace, spark_operator.values(wanted)),
        ("history-server", "history-server", platform, history_server.values(wanted)),
        ("monitoring", "monitoring", platform, monitoring.values(wanted)),
    ):
        if values is not None:
            yield release, chart, namespace, values
    for one in wanted.pipelines.values():
        name = pipeline_component.kubernetes_name(one)
        yield name, "streaming-pipeline", wanted.pipelines_namespace, pipeline_component.values(wanted, one)


@cache
def named(name: str) -> Deployment:
    """Return one of those above."""
    return deployment(WANTED[name])


def deployment(wanted: Settings) -> Deployment:
    """Render everything, and put neighbours beside it."""
    given, objects = [], []
    for release, chart, namespace, values in releases(wanted):
        given.append(values.to_helm())
        for one in render(chart, given[-1], release, namespace):
            objects.append({**one, "metadata": {"namespace": namespace, **one["metadata"]}})
    if wanted.network_policies.enabled:
        objects += (closed(one) for one in names(wanted))
    tables = frozenset(pipeline_component.kubernetes_name(one) for one in wanted.pipelines.values() if one.result_store)
    egress = frozenset(pipeline_component.kubernetes_name(one) for one in wanted.pipelines.values() if one.egress)
    addresses = count(1)
    pods = []
    for namespace, labels in _templates(objects):
        pod = _pod(namespace, labels, f"10.244.0.{next(addresses)}")
        marks = {flows.TABLES} if pod.owner in tables else set()
        marks |= {flows.EGRESS} if pod.owner in egress else set()
        pods.append(replace(pod, marks=frozenset(marks)))
    return Deployment(tuple(given), tuple(objects), (*pods, *_neighbours(wanted, pods)), frozenset(_marks(wanted)))


def by_helm() -> Deployment:
    """Render each chart with its own defaults, into a namespace of its name; nobody is beside it."""
    objects = []
    for chart, values in samples.EACH.values():
        for one in render(chart, values.to_helm(), "release", chart):
            objects.append({**one, "metadata": {"namespace": chart, **one["metadata"]}})
    pods = [_pod(namespace, labels, "10.244.0.1") for namespace, labels in _templates(objects)]
    return Deployment((), tuple(objects), tuple(pods), frozenset())


def closed(namespace: str) -> Object:
    """Return the policy that closes a namespace, as the program makes it."""
    metadata = {"name": network.NAME, "namespace": namespace}
    return {"kind": "NetworkPolicy", "metadata": metadata, "spec": network.DEFAULT_DENY}


def _marks(wanted: Settings) -> Iterator[str]:
    yield flows.APART if wanted.kafka.controllers else flows.COMBINED
    yield flows.PUBLIC
    for holds, mark in (
        (wanted.external_access.kafka.by != "none", flows.KAFKA_OUTSIDE),
        (wanted.external_access.object_store.by != "none", flows.OBJECTS_OUTSIDE),
        (wanted.external_access.console.by != "none", flows.CONSOLE_OUTSIDE),
        (wanted.external_access.history_server.by != "none", flows.HISTORY_OUTSIDE),
        (wanted.security.kafka, flows.KAFKA_SECURED),
        (wanted.security.object_store, flows.OBJECTS_SECURED),
        (wanted.security.result_store, flows.RESULTS_SECURED),
        (wanted.kafka.clients, flows.KAFKA_CLIENTS),
        (wanted.object_store.nodes > 1, flows.STORE_NODES),
        (wanted.object_store.clients, flows.OBJECT_CLIENTS),
        (wanted.result_store.clients, flows.RESULT_CLIENTS),
        (wanted.network_policies.api_server, flows.VIEWERS),
        (wanted.monitoring.enabled and not wanted.monitoring.operator_objects, flows.MONITORED),
        (wanted.monitoring.operator_objects, flows.MONITORED_BY_OTHERS),
        (wanted.monitoring.clients and not wanted.monitoring.operator_objects, flows.WATCH_CLIENTS),
        (wanted.monitoring.receivers, flows.RECEIVERS),
    ):
        if holds:
            yield mark


def _templates(objects: list[Object]) -> Iterator[tuple[str, dict[str, str]]]:
    """Namespace and labels of every pod, two of those that have others of their kind; Spark gives each its role."""
    for one in objects:
        namespace = one["metadata"]["namespace"]
        if one["kind"] == "SparkApplication":
            for role in ("driver", "executor", "executor"):
                labels = one["spec"][role]["template"]["metadata"]["labels"]
                yield namespace, {**labels, "spark-role": role}
        elif one["kind"] == "CronJob":
            yield namespace, one["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
        elif "template" in one.get("spec", {}):
            for _ in range(1 + (one["kind"] == "StatefulSet")):
                yield namespace, one["spec"]["template"]["metadata"]["labels"]


def _pod(namespace: str, labels: dict[str, str], ip: str) -> Endpoint:
    part = labels.get("spark-role") or labels.get(COMPONENT)
    kinds = {"create": flows.CREATE, "service": flows.SERVICE, "controller": flows.CONTROLLER}
    kinds |= {"grant": flows.KAFKA_GRANT, "backup": flows.BACKUP}
    kinds |= {"prometheus": flows.PROMETHEUS, "alertmanager": flows.ALERTMANAGER}
    kind = {"driver": flows.DRIVER, "executor": flows.EXECUTOR, **kinds}.get(part or "") or KINDS[labels[NAME]]
    return Endpoint(kind, ip, namespace, labels, labels.get("effectively-once/pipeline", "platform"))


def _neighbours(wanted: Settings, pods: list[Endpoint]) -> Iterator[Endpoint]:
    """Yield doubles of our pods in another namespace, pods that nobody expects in ours, and what clusters have."""
    addresses = count(1)

    def another(kind: str, namespace: str, labels: dict[str, Any], owner: str = "") -> Endpoint:
        return Endpoint(kind, f"10.244.1.{next(addresses)}", namespace, labels, owner)

    for one in pods:
        yield another(FOREIGN, ELSEWHERE, dict(one.labels))
    for namespace in names(wanted):
        yield another(STRANGER, namespace, {}, "nobody")
    yield another(STRANGER, wanted.namespace, {**OUR_LABEL, NAME: "kafka"}, "nobody")
    half = {**OUR_LABEL, NAME: "streaming-pipeline", "effectively-once/pipeline": "user-counts"}
    yield another(STRANGER, wanted.namespace, half, "nobody")
    yield another(flows.NAMES, SYSTEM, {"k8s-app": "kube-dns"})
    yield another(FOREIGN, ELSEWHERE, {"k8s-app": "kube-dns"})
    yield another(FOREIGN, SYSTEM, {"k8s-app": "metrics-server"})
    yield another(flows.CLIENT, GATEWAYS, {NAME: "gateway"})
    yield another(flows.TARGET, PAYMENTS, {NAME: "payments"})
    yield Endpoint(flows.NAMES, NODE_LOCAL_DNS.partition("/")[0])
    yield Endpoint(flows.API_SERVER, API_IP)
    yield Endpoint(ADDRESS, "203.0.113.7")
    yield Endpoint(ADDRESS, "2001:db8::7")
    yield Endpoint(METADATA_ADDRESS, "169.254.169.254")
    for block in METADATA:
        yield Endpoint(METADATA_ADDRESS, block.partition("/")[0].removesuffix("::") + ("::1" if "/10" in block else ""))
