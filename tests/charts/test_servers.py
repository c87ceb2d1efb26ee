"""The charts of object store, result store, operator and history server."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from infra.values.exposure import Exposure
from infra.values.history_server import HistoryServerValues
from infra.values.minio import External, MinioValues
from infra.values.postgres import PostgresValues
from infra.values.spark_operator import SparkOperatorValues
from tests.charts.render import NAMESPACE, Object, Rendered, environment, render
from tests.charts.samples import IMAGE


def only_pod(rendered: Rendered) -> Object:
    (pod,) = dict(rendered.pods()).values()
    return pod


def test_object_store_takes_its_credentials_from_the_secret() -> None:
    rendered = render("minio", MinioValues(image=IMAGE, credentials_secret="root").to_helm())
    found = environment(only_pod(rendered))
    assert found["MINIO_ROOT_USER"] == {"secretKeyRef": {"name": "root", "key": "rootUser"}}
    assert found["MINIO_ROOT_PASSWORD"] == {"secretKeyRef": {"name": "root", "key": "rootPassword"}}


def test_an_object_store_of_several_nodes_names_each_drive_and_all_begin_at_once() -> None:
    """The names have to be those of pods and of a Service that answers for who is not ready yet."""
    rendered = render("minio", MinioValues(image=IMAGE, nodes=4).to_helm())
    spec = rendered.one("StatefulSet", "minio")["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"], spec["serviceName"]) == (4, "Parallel", "minio-nodes")
    (container,) = only_pod(rendered)["containers"]
    assert container["args"][1] == f"http://minio-{{0...3}}.minio-nodes.{NAMESPACE}.svc:9000/data"
    nodes = rendered.one("Service", "minio-nodes")["spec"]
    assert (nodes["clusterIP"], nodes["publishNotReadyAddresses"]) == ("None", True)
    (alone,) = only_pod(render("minio", MinioValues(image=IMAGE).to_helm()))["containers"]
    assert alone["args"][1] == "/data"


def minio(api: Exposure, console: Exposure) -> Rendered:
    return render("minio", MinioValues(image=IMAGE, external=External(api=api, console=console)).to_helm())


NOT = Exposure(port=1, node_port=30001)
NODE_PORT = Exposure(by="NodePort", port=12000, node_port=31900)
BALANCED = Exposure(by="LoadBalancer", host="s3.example", port=9443, node_port=30900, annotations={"lb": "inner"})
INGRESS = Exposure(
    by="Ingress",
    host="s3.example",
    port=443,
    node_port=30900,
    annotations={"a": "b"},
    ingress_class="own",
    tls_secret="t",
)


def test_node_ports_share_a_service_and_nothing_is_exposed_unasked() -> None:
    both = minio(NODE_PORT, NODE_PORT.model_copy(update={"node_port": 31901}))
    ports = {port["name"]: port["nodePort"] for port in both.one("Service", "minio-external")["spec"]["ports"]}
    assert ports == {"api": 31900, "console": 31901}
    (port,) = minio(NOT, NODE_PORT).one("Service", "minio-external")["spec"]["ports"]
    assert (port["name"], port["port"], port["nodePort"]) == ("console", 9001, 31900)
    inside = render("minio", MinioValues(image=IMAGE).to_helm())
    assert [one["metadata"]["name"] for one in inside.of("Service")] == ["minio"]


def test_a_load_balancer_has_a_service_of_its_own() -> None:
    objects = minio(BALANCED, NODE_PORT)
    one = objects.one("Service", "minio-api-external")
    assert one["metadata"]["annotations"] == {"lb": "inner"}
    assert one["spec"]["type"] == "LoadBalancer"
    assert one["spec"]["ports"] == [{"name": "api", "port": 9443, "targetPort": "api"}]
    assert [port["name"] for port in objects.one("Service", "minio-external")["spec"]["ports"]] == ["console"]
    assert objects.of("Ingress") == []
    assert BALANCED.url == "http://s3.example:9443"


def test_an_ingress_leads_to_the_service_inside() -> None:
    objects = minio(NOT, INGRESS)
    one = objects.one("Ingress", "minio-console-external")
    assert (one["apiVersion"], one["metadata"]["annotations"]) == ("networking.k8s.io/v1", {"a": "b"})
    assert one["spec"]["ingressClassName"] == "own"
    assert one["spec"]["tls"] == [{"hosts": ["s3.example"], "secretName": "t"}]
    (rule,) = one["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    service, port = (path["backend"]["service"][key] for key in ("name", "port"))
    assert (rule["host"], path["path"], service) == ("s3.example", "/", "minio")
    assert port["name"] in [each["name"] for each in objects.one("Service", "minio")["spec"]["ports"]]
    assert [each["metadata"]["name"] for each in objects.of("Service")] == ["minio"]
    assert INGRESS.url == "https://s3.example"


@pytest.mark.parametrize(
    ("way", "made"),
    [
        (NOT, ["Service/history-server"]),
        (NODE_PORT, ["Service/history-server", "Service/history-server-external"]),
        (BALANCED, ["Service/history-server", "Service/history-server-external"]),
        (INGRESS, ["Service/history-server", "Ingress/history-server-external"]),
    ],
    ids=lambda one: getattr(one, "by", ""),
)
def test_the_history_server_is_reached_in_each_way(way: Exposure, made: list[str]) -> None:
    values = HistoryServerValues(image=IMAGE, s3_endpoint="http://s3:9", bucket="logs", external=way)
    names = render("history-server", values.to_helm()).names()
    assert [one for one in names if one.startswith(("Service/", "Ingress/"))] == made


def test_result_store_is_ready_when_its_database_is() -> None:
    """Over TCP, which the server that makes the data folder does not serve."""
    rendered = render("postgres", PostgresValues(image=IMAGE, database="results").to_helm())
    pod = only_pod(rendered)
    assert environment(pod)["POSTGRES_DB"] == "results"
    command = pod["containers"][0]["readinessProbe"]["exec"]["command"]
    assert command[0].endswith("/pg_isready")
    assert {"--host=127.0.0.1", "--dbname=results"} <= set(command)
    # A folder whose mode was changed is refused by the server.
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def operator(**changes: Any) -> Rendered:
    values = SparkOperatorValues(image=IMAGE, **{"namespaces": ("pipelines", "more"), **changes})
    return render("spark-operator", values.to_helm())


def test_operator_has_rights_where_it_watches_and_nowhere_else() -> None:
    """A Role in each namespace; SparkApplications themselves are read, only their status is written."""
    rendered = operator()
    assert {one["metadata"]["namespace"] for one in rendered.of("Role")} == {"pipelines", "more"}
    for binding in rendered.of("RoleBinding"):
        assert binding["subjects"][0]["namespace"] == NAMESPACE
    rules = rendered.of("Role")[0]["rules"]
    assert not any("*" in [*rule["verbs"], *rule["resources"]] for rule in rules)
    (applications,) = [rule["verbs"] for rule in rules if "sparkapplications" in rule["resources"]]
    assert applications == ["get", "list", "watch"]
    assert "secrets" not in {resource for rule in rules for resource in rule["resources"]}
    assert "--namespaces=pipelines,more" in only_pod(rendered)["containers"][0]["args"]


def test_one_operator_replaces_itself_and_two_elect() -> None:
    """Without a lease there is never a second one; with it the right to the lease comes along."""
    alone = operator()
    assert alone.one("Deployment", "spark-operator")["spec"]["strategy"] == {"type": "Recreate"}
    assert "--leader-election=false" in only_pod(alone)["containers"][0]["args"]
    two = operator(replicas=2, leader_election=True)
    assert two.one("Role", "spark-operator-leader")["metadata"]["namespace"] == NAMESPACE
    assert "--leader-election-lock-name=spark-operator" in only_pod(two)["containers"][0]["args"]
    with pytest.raises(ValidationError, match="leaderElection"):
        SparkOperatorValues(image=IMAGE, namespaces=("p",), replicas=2)


@pytest.mark.parametrize(("endpoint", "ssl"), [("http://minio:9000", "false"), ("https://s3.example", "true")])
def test_history_server_reads_where_drivers_write(endpoint: str, ssl: str) -> None:
    """The folder, the endpoint and its scheme; credentials come from the Secret alone."""
    rendered = render("history-server", HistoryServerValues(image=IMAGE, s3_endpoint=endpoint, bucket="logs").to_helm())
    found = environment(only_pod(rendered))
    options = found["SPARK_HISTORY_OPTS"].split()
    assert "-Dspark.history.fs.logDirectory=s3a://logs/spark-events" in options
    assert f"-Dspark.hadoop.fs.s3a.endpoint={endpoint}" in options
    assert f"-Dspark.hadoop.fs.s3a.connection.ssl.enabled={ssl}" in options
    assert not [option for option in options if "key" in option]
    assert set(found["AWS_SECRET_ACCESS_KEY"]) == {"secretKeyRef"}
