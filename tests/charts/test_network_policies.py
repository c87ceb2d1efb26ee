"""Each flow of the table is open, everything else is closed, and no rule is too many or too wide."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from infra.values import flows
from infra.values.flows import FLOWS, Flow
from tests.charts import deployment as deployed
from tests.charts.deployment import LAPTOP, SECURED, TEAM, Deployment, named
from tests.charts.meant import ASKED, PORTS, pairs, wrong
from tests.charts.policies import Endpoint, allowed, selects
from tests.infra.platform import settings

EACH = pytest.mark.parametrize("name", [LAPTOP, TEAM, SECURED])


@EACH
def test_what_the_table_has_is_open_and_nothing_else(name: str) -> None:
    """Of every pod, in both directions, with everybody, on all ports that anything has."""
    there = named(name)
    assert [*wrong(there, there.policies, lambda _: True)] == []


@pytest.mark.parametrize("flow", FLOWS, ids=[f"{', '.join(one.sources)} -> {one.target}" for one in FLOWS])
def test_each_flow_comes_about(flow: Flow) -> None:
    """Each of its sources reaches its target with both sides open, in each deployment that has all it takes."""
    seen = set()
    for there in map(named, (LAPTOP, TEAM, SECURED)):
        for source, target in pairs(there, flow):
            for port in flow.ports or (8080,):
                for protocol in flow.protocols:
                    assert allowed(there.policies, source, target, port, protocol), f"{source} -> {target} {port}"
            seen.add(source.kind)
    sources = {*flow.sources} - {flows.ANYBODY, flows.ANY_POD}
    assert seen >= (sources or {deployed.FOREIGN, flows.CLIENT})


FORBIDDEN: list[tuple[str, tuple[str, str], tuple[str, str], tuple[int, ...]]] = [
    ("a driver -> another pipeline's driver", (flows.DRIVER, "user-counts"), (flows.DRIVER, "clicks"), (7078, 7079)),
    ("its page and its metrics", (flows.DRIVER, "user-counts"), (flows.DRIVER, "clicks"), (4040, 9404)),
    ("an executor -> another's driver", (flows.EXECUTOR, "user-counts"), (flows.DRIVER, "clicks"), (7078, 7079)),
    ("an executor -> another's executor", (flows.EXECUTOR, "clicks"), (flows.EXECUTOR, "user-counts"), (7079,)),
    ("an executor -> the API server", (flows.EXECUTOR, "clicks"), (flows.API_SERVER, ""), (443, 6443)),
    ("a pod without labels -> broker", (deployed.STRANGER, ""), (flows.BROKER, ""), (9092, 9093)),
    ("a pod without labels -> name server", (deployed.STRANGER, ""), (flows.NAMES, ""), (53,)),
    ("a pod of others -> broker", (deployed.FOREIGN, ""), (flows.BROKER, ""), (9092, 9093)),
    ("a pod of others -> result store", (deployed.FOREIGN, ""), (flows.RESULT_STORE, ""), (5432,)),
    ("a pod of others -> Spark's page", (deployed.FOREIGN, ""), (flows.DRIVER, ""), (4040,)),
    ("a driver -> what brokers tell each other", (flows.DRIVER, ""), (flows.BROKER, ""), (9094,)),
    ("a driver -> quorum", (flows.DRIVER, ""), (flows.BROKER, ""), (9093,)),
    ("a pipeline without tables -> result store", (flows.DRIVER, "user-counts"), (flows.RESULT_STORE, ""), (5432,)),
    ("a pipeline -> another's target", (flows.EXECUTOR, "user-counts"), (flows.TARGET, ""), (8080,)),
    ("the operator -> broker", (flows.OPERATOR, ""), (flows.BROKER, ""), (9092,)),
    ("a broker -> outside", (flows.BROKER, ""), (deployed.ADDRESS, ""), (443,)),
    ("the object store -> outside", (flows.OBJECT_STORE, ""), (deployed.ADDRESS, ""), (443, 80)),
]


@EACH
@pytest.mark.parametrize(
    ("source", "target", "ports"), [row[1:] for row in FORBIDDEN], ids=[row[0] for row in FORBIDDEN]
)
def test_what_must_never_come_about(
    name: str, source: tuple[str, str], target: tuple[str, str], ports: tuple[int, ...]
) -> None:
    there = named(name)
    for port in ports:
        for protocol in ("TCP", "UDP"):
            assert not allowed(there.policies, there.one(*source), there.one(*target), port, protocol)


@EACH
def test_nobody_reaches_the_metadata_of_a_cloud(name: str) -> None:
    there = named(name)
    metadata = [one for one in there.endpoints if one.kind == deployed.METADATA_ADDRESS]
    assert "169.254.169.254" in {one.ip for one in metadata}
    for pod in there.ours:
        for address in metadata:
            assert not [asked for asked in ASKED if allowed(there.policies, pod, address, *asked)], pod


@EACH
def test_the_result_store_begins_nothing(name: str) -> None:
    there = named(name)
    store = there.one(flows.RESULT_STORE)
    others = [one for one in there.endpoints if one is not store]
    assert not [one for one in others for asked in ASKED if allowed(there.policies, store, one, *asked)]


def test_what_comes_from_outside_comes_in_only_where_the_ways_in_are_open() -> None:
    """The harness and a browser, through a NodePort; by whichever address the cluster shows them with."""
    open_ports = {flows.BROKER: (9095,), flows.OBJECT_STORE: (9000, 9001), flows.HISTORY: (18080,)}
    for name in (LAPTOP, TEAM, SECURED):
        there = named(name)
        outside = [one for one in there.endpoints if one.kind in (deployed.ADDRESS, flows.API_SERVER)]
        for kind, ports in open_ports.items():
            for port in ports:
                found = {allowed(there.policies, one, there.one(kind), port) for one in outside}
                assert found == {name == LAPTOP}, (kind, port)


@pytest.mark.parametrize("service", ["kafka", "object_store", "console", "history_server"])
def test_one_way_in_opens_no_other(service: str) -> None:
    access = {service: {"by": "LoadBalancer", "host": "way-{node}.example" if service == "kafka" else "way.example"}}
    there = deployed.deployment(settings(profile="production", external_access=access))
    ways = {
        ("kafka", flows.BROKER, 9095),
        ("object_store", flows.OBJECT_STORE, 9000),
        ("console", flows.OBJECT_STORE, 9001),
        ("history_server", flows.HISTORY, 18080),
    }
    outside = there.one(deployed.ADDRESS)
    open_ = {name for name, kind, port in ways if allowed(there.policies, outside, there.one(kind), port)}
    assert open_ == {service}


@EACH
def test_every_pod_is_closed_in_both_directions_by_one_policy_of_its_chart(name: str) -> None:
    """Two would be there one after the other, and between them a pod is closed to what only the later one opens."""
    there = named(name)
    for pod in there.ours:
        found = [one for one in there.policies if selects(one, pod)]
        assert all(set(one["spec"]["policyTypes"]) == {"Ingress", "Egress"} for one in found)
        own = [one["metadata"]["name"] for one in found if one["metadata"]["name"] != "default-deny"]
        assert len(own) == (pod.kind != deployed.STRANGER), (pod, own)
        assert len(found) - len(own) == 1, pod


@EACH
def test_every_address_in_the_settings_of_a_pipeline_can_be_reached(name: str) -> None:
    """By each of its pods, as its settings file has it, through the Service of that name."""
    there = named(name)
    files = [one for one in there.objects if one["kind"] == "ConfigMap" and "settings.json" in one["data"]]
    assert len(files) == 2
    for file in files:
        told = json.loads(file["data"]["settings.json"])
        urls = [f"kafka://{told['kafka_bootstrap']}", told["s3_endpoint"], *filter(None, [told.get("database")])]
        for pod in (one for one in there.ours if one.owner == told["pipeline"].replace("_", "-")):
            for url in map(urlsplit, urls):
                service, namespace, _ = str(url.hostname).split(".")
                behind = list(_behind(there, service, namespace, url.port or 0))
                assert behind, url
                for target, port in behind:
                    assert allowed(there.policies, pod, target, port), (pod, url)


def _behind(there: Deployment, name: str, namespace: str, port: int) -> Iterator[tuple[Endpoint, int]]:
    """Pods behind a Service, and the port of theirs that one of its own leads to."""
    (service,) = (
        one
        for one in there.objects
        if (one["kind"], one["metadata"]["name"], one["metadata"]["namespace"]) == ("Service", name, namespace)
    )
    assert port in [one["port"] for one in service["spec"]["ports"]]
    for pod in there.ours:
        if pod.namespace == namespace and service["spec"]["selector"].items() <= pod.labels.items():
            yield pod, port


@EACH
def test_no_port_of_a_container_is_left_out(name: str) -> None:
    """One that a chart gets anew is in the table, or is named here for what it is."""
    kubelet = {8081}  # the operator's health: asked by its own node alone
    there = named(name)
    ports = {
        port["containerPort"]
        for one in there.objects
        if "template" in one.get("spec", {})
        for container in one["spec"]["template"]["spec"]["containers"]
        for port in container.get("ports", ())
    }
    assert ports - kubelet <= {port for flow in FLOWS for port in flow.ports} | {8080}
    assert ports <= {*PORTS}


def test_releases_by_plain_helm_find_each_other_in_whichever_namespaces() -> None:
    """The charts' own defaults know labels alone; whoever has none of ours stays out."""
    there = deployed.by_helm()
    driver = there.one(flows.DRIVER)
    for kind, port in ((flows.BROKER, 9092), (flows.OBJECT_STORE, 9000), (flows.RESULT_STORE, 5432)):
        assert allowed(there.policies, driver, there.one(kind), port)
        # That sample of the object store is open to the outside.
        nobody = Endpoint("nobody", "10.0.0.9", "x")
        assert allowed(there.policies, nobody, there.one(kind), port) == (kind == flows.OBJECT_STORE)
    assert allowed(there.policies, there.one(flows.HISTORY), there.one(flows.OBJECT_STORE), 9000)


def test_without_policies_none_is_rendered() -> None:
    there = deployed.deployment(settings(profile="ci", network_policies={"enabled": False}))
    assert there.policies == []
    assert allowed([], there.one(deployed.STRANGER), there.one(flows.BROKER), 9093)
