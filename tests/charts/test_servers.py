"""The charts of object store, result store, operator and history server."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

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
    """And serves two NodePorts when outside access is asked for."""
    values = MinioValues(image=IMAGE, credentials_secret="root", external=External(enabled=True, api_node_port=31900))
    rendered = render("minio", values.to_helm())
    found = environment(only_pod(rendered))
    assert found["MINIO_ROOT_USER"] == {"secretKeyRef": {"name": "root", "key": "rootUser"}}
    assert found["MINIO_ROOT_PASSWORD"] == {"secretKeyRef": {"name": "root", "key": "rootPassword"}}
    ports = {port["name"]: port["nodePort"] for port in rendered.one("Service", "minio-external")["spec"]["ports"]}
    assert ports == {"api": 31900, "console": 30901}
    inside = MinioValues(image=IMAGE).to_helm()
    assert [one["metadata"]["name"] for one in render("minio", inside).of("Service")] == ["minio"]


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
