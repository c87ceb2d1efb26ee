"""The broker's chart."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic import ValidationError

from infra.components.kafka import FORMED
from infra.images.catalogue import FOLDER
from infra.values.common import Storage
from infra.values.kafka import External, KafkaValues
from tests.charts.render import NAMESPACE, Rendered, environment, render
from tests.charts.samples import IMAGE


def kafka(**changes: Any) -> Rendered:
    return render("kafka", KafkaValues(image=IMAGE, **changes).to_helm())


def properties(objects: Rendered, name: str = "kafka") -> dict[str, str]:
    text = objects.one("ConfigMap", name)["data"]["server.properties"]
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [line.split("=", 1) for line in lines]
    assert len({key for key, _ in pairs}) == len(pairs), "a property twice"
    return dict(pairs)


def test_one_node_is_broker_and_controller() -> None:
    """One node forms its quorum alone, and nothing has more than one copy."""
    objects = kafka()
    found = properties(objects)
    assert found["process.roles"] == "broker,controller"
    assert found["node.id"] == "${NODE_ID}"
    assert found["controller.quorum.bootstrap.servers"] == f"kafka-0.kafka-nodes.{NAMESPACE}.svc.cluster.local:9093"
    assert found["listeners"] == "INTERNAL://:9092,CONTROLLER://:9093"
    assert {found[key] for key in found if key.endswith((".factor", ".isr", ".replicas"))} == {"1"}
    (pod,) = dict(objects.pods()).values()
    assert "KAFKA_INITIAL_CONTROLLERS" not in environment(pod)
    assert objects.one("Service", "kafka-nodes")["spec"]["publishNotReadyAddresses"] is True


def test_three_nodes_have_three_copies_and_know_each_other() -> None:
    """Three copies, two in sync; each member of the quorum has an id, an address and a directory of its own."""
    objects = kafka(nodes=3)
    found = properties(objects)
    for prefix in ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert found[f"{prefix}.replication.factor"] == "3"
    for key in ("min.insync.replicas", "transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr"):
        assert found[key] == "2"
    spec = objects.one("StatefulSet", "kafka")["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"], spec["serviceName"]) == (3, "Parallel", "kafka-nodes")
    members = environment(spec["template"]["spec"])["KAFKA_INITIAL_CONTROLLERS"].split(",")
    parts = [member.split("@", 1) for member in members]
    assert [identity for identity, _ in parts] == ["0", "1", "2"]
    for number, (_, rest) in enumerate(parts):
        host, port, directory = rest.split(":")
        assert (host, port) == (f"kafka-{number}.kafka-nodes.{NAMESPACE}.svc.cluster.local", "9093")
        assert len(base64.urlsafe_b64decode(directory + "==")) == 16
    assert len({rest.split(":")[2] for _, rest in parts}) == 3


def test_directories_follow_from_the_cluster() -> None:
    """The same cluster is formatted in the same way again; another cluster has other directories."""

    def members(cluster: str) -> str:
        pods = dict(kafka(nodes=3, cluster_id=cluster).pods())
        return str(environment(pods["StatefulSet/kafka"])["KAFKA_INITIAL_CONTROLLERS"])

    assert members("A" * 22) == members("A" * 22) != members("B" * 22)


def test_controllers_apart() -> None:
    """Brokers are brokers alone; the quorum is the other set's, with node ids that brokers do not have."""
    objects = kafka(nodes=3, controllers=3)
    broker, controller = properties(objects), properties(objects, "kafka-controller")
    assert (broker["process.roles"], controller["process.roles"]) == ("broker", "controller")
    assert broker["controller.quorum.bootstrap.servers"] == controller["controller.quorum.bootstrap.servers"]
    assert "kafka-controller-2.kafka-controller-nodes." in broker["controller.quorum.bootstrap.servers"]
    assert "CONTROLLER://" not in broker["listeners"]
    pods = {name: environment(pod) for name, pod in objects.pods()}
    assert "KAFKA_INITIAL_CONTROLLERS" not in pods["StatefulSet/kafka"]
    quorum = pods["StatefulSet/kafka-controller"]
    assert quorum["KAFKA_INITIAL_CONTROLLERS"].startswith("100@kafka-controller-0.kafka-controller-nodes.")
    assert (quorum["KAFKA_NODE_ID_OFFSET"], pods["StatefulSet/kafka"]["KAFKA_NODE_ID_OFFSET"]) == ("100", "0")
    service = objects.one("Service", "kafka")["spec"]["selector"]
    assert service["app.kubernetes.io/component"] == "broker"


def test_voters_see_whether_their_quorum_was_formed() -> None:
    """Neither ConfigMap has to be there for a pod to start; brokers apart, which have no vote, do not ask."""
    combined, apart = dict(kafka(nodes=3).pods()), dict(kafka(nodes=3, controllers=3).pods())
    for pod in (combined["StatefulSet/kafka"], apart["StatefulSet/kafka-controller"]):
        (container,) = pod["containers"]
        (mount,) = (one for one in container["volumeMounts"] if one["name"] == "quorum")
        assert f"quorum={mount['mountPath']}\n" in (FOLDER / "kafka" / "start").read_text()
        (volume,) = (one for one in pod["volumes"] if one["name"] == "quorum")
        sources = [one["configMap"] for one in volume["projected"]["sources"]]
        assert sources == [{"name": name, "optional": True} for name in (FORMED, "kafka-rejoin")]
    assert "quorum" not in [one["name"] for one in apart["StatefulSet/kafka"]["volumes"]]


def test_external_access() -> None:
    """Each node has a NodePort of its own, and advertises the port that outside belongs to it; unasked none has."""
    inside = kafka()
    assert "EXTERNAL" not in properties(inside)["listeners"]
    assert {one["metadata"]["name"] for one in inside.of("Service")} == {"kafka", "kafka-nodes"}
    objects = kafka(nodes=3, external=External(by="NodePort", host="broker.example", port=19000, node_port=31000))
    found = properties(objects)
    assert "EXTERNAL://:9095" in found["listeners"]
    assert found["advertised.listeners"].endswith("EXTERNAL://broker.example:${EXTERNAL_PORT}")
    (pod,) = dict(objects.pods()).values()
    assert environment(pod)["KAFKA_EXTERNAL_PORT_BASE"] == "19000"
    for number in range(3):
        spec = objects.one("Service", f"kafka-external-{number}")["spec"]
        assert spec["ports"][0]["nodePort"] == 31000 + number
        assert spec["selector"]["statefulset.kubernetes.io/pod-name"] == f"kafka-{number}"
    assert KafkaValues(image=IMAGE, nodes=3, external=External(by="NodePort")).external_bootstrap == (
        "127.0.0.1:12092,127.0.0.1:12093,127.0.0.1:12094"
    )


def test_each_broker_has_a_load_balancer_of_its_own() -> None:
    """A broker tells clients a name, which has to lead to it and to no other."""
    host = "kafka-{node}.example"
    external = External(by="LoadBalancer", host=host, port=9092, annotations={"dns/name": host})
    objects = kafka(nodes=3, external=external)
    assert properties(objects)["advertised.listeners"].endswith(
        "EXTERNAL://kafka-${POD_ORDINAL}.example:${EXTERNAL_PORT}"
    )
    for number in range(3):
        one = objects.one("Service", f"kafka-external-{number}")
        assert one["metadata"]["annotations"] == {"dns/name": f"kafka-{number}.example"}
        assert one["spec"]["type"] == "LoadBalancer"
        assert one["spec"]["ports"] == [{"name": "external", "port": 9092 + number, "targetPort": "external"}]
    assert KafkaValues(image=IMAGE, nodes=3, external=external).external_bootstrap == (
        "kafka-0.example:9092,kafka-1.example:9093,kafka-2.example:9094"
    )


def test_a_changed_property_rolls_the_pods() -> None:
    """The pod template carries a sum of the configuration."""

    def annotations(**changes: Any) -> Any:
        return kafka(**changes).one("StatefulSet", "kafka")["spec"]["template"]["metadata"]["annotations"]

    assert annotations() == annotations() != annotations(session_timeout_ms=9000)


def test_volumes() -> None:
    """The storage class is the cluster's default unless named; volumes are kept when that is asked for."""
    plain, kept = kafka(), kafka(storage=Storage(size="20Gi", storage_class="ssd", retain=True))
    (first,), (second,) = (one.one("StatefulSet", "kafka")["spec"]["volumeClaimTemplates"] for one in (plain, kept))
    assert "storageClassName" not in first["spec"]
    assert second["spec"]["storageClassName"] == "ssd"
    policies = [one.of("StatefulSet")[0]["spec"]["persistentVolumeClaimRetentionPolicy"] for one in (plain, kept)]
    assert [policy["whenDeleted"] for policy in policies] == ["Delete", "Retain"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("nodes", 2), ("controllers", 1), ("cluster_id", "-" + "A" * 21), ("session_timeout_ms", 10)],
)
def test_wrong_values_are_refused_with_the_field(field: str, value: Any) -> None:
    """The model names the field before anything is rendered."""
    with pytest.raises(ValidationError) as refused:
        KafkaValues(**{"image": IMAGE, field: value})
    assert [error["loc"] for error in refused.value.errors()] == [(field,)]
