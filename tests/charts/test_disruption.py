"""What a drained node, a full one, or one that fails may take of each server: budgets, spread and priorities."""

from __future__ import annotations

from typing import Any

import pytest

from infra.values.common import Values
from infra.values.kafka import KafkaValues
from infra.values.minio import MinioValues
from infra.values.postgres import PostgresValues
from infra.values.spark_operator import SparkOperatorValues
from infra.values.streaming_pipeline import Driver, Service
from tests.charts import samples
from tests.charts.render import Object, Rendered, render
from tests.charts.samples import IMAGE, pipeline

SINGLE: dict[str, type[Values]] = {"kafka": KafkaValues, "minio": MinioValues, "postgres": PostgresValues}


def budgets(rendered: Rendered) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"]["maxUnavailable"] for one in rendered.of("PodDisruptionBudget")}


def kafka(**changes: Any) -> Rendered:
    return render("kafka", KafkaValues(image=IMAGE, **changes).to_helm())


def minio(**changes: Any) -> Rendered:
    return render("minio", MinioValues(image=IMAGE, **changes).to_helm())


def operator(**changes: Any) -> Rendered:
    return render("spark-operator", SparkOperatorValues(image=IMAGE, namespaces=("p",), **changes).to_helm())


@pytest.mark.parametrize(("chart", "values"), samples.EACH.values(), ids=samples.EACH.keys())
def test_each_stateful_set_has_a_budget_of_its_name_for_its_pods(chart: str, values: Values) -> None:
    objects = render(chart, values.to_helm())
    for one in objects.of("StatefulSet"):
        budget = objects.one("PodDisruptionBudget", one["metadata"]["name"])
        assert budget["spec"]["selector"] == one["spec"]["selector"]
    more = [one for one in objects.of("Deployment") if one["spec"]["replicas"] > 1]
    assert len(objects.of("PodDisruptionBudget")) == len(objects.of("StatefulSet")) + len(more)


@pytest.mark.parametrize("chart", SINGLE)
def test_a_single_copy_may_be_evicted_unless_it_is_to_be_held(chart: str) -> None:
    for hold, expected in ((False, 1), (True, 0)):
        values = SINGLE[chart].model_validate({"image": IMAGE, "hold_single_copy": hold})
        assert budgets(render(chart, values.to_helm())) == {chart: expected}


def test_one_of_several_copies_may_be_away_whatever_is_held() -> None:
    assert budgets(kafka(nodes=3, controllers=3, hold_single_copy=True)) == {"kafka": 1, "kafka-controller": 1}
    assert budgets(minio(nodes=4, hold_single_copy=True)) == {"minio": 1}
    assert budgets(operator()) == {}
    assert budgets(operator(replicas=2, leader_election=True)) == {"spark-operator": 1}


def spread(pod: Object) -> Object:
    (one,) = pod["topologySpreadConstraints"]
    assert one["topologyKey"] == "kubernetes.io/hostname"
    assert one["maxSkew"] == 1
    return dict(one)


def test_servers_of_several_copies_are_apart_as_far_as_there_are_nodes_or_always() -> None:
    """Kubernetes counts the nodes that there are: with `minDomains` a third copy on two nodes is refused too."""
    for pod in (*dict(kafka(nodes=3, controllers=3).pods()).values(), *dict(minio(nodes=4).pods()).values()):
        assert spread(pod)["whenUnsatisfiable"] == "ScheduleAnyway"
        assert "minDomains" not in spread(pod)
    hard = (kafka(nodes=3, controllers=3, spread="hard"), minio(nodes=4, spread="hard"))
    for one in (one for objects in hard for one in objects.of("StatefulSet")):
        found = spread(one["spec"]["template"]["spec"])
        assert (found["whenUnsatisfiable"], found["minDomains"]) == ("DoNotSchedule", 3)
        assert found["labelSelector"] == one["spec"]["selector"]
    (alone,) = dict(kafka(spread="hard").pods()).values()
    assert spread(alone)["minDomains"] == 1


def test_operators_of_which_one_leads_are_apart_as_far_as_there_are_nodes() -> None:
    two = operator(replicas=2, leader_election=True).one("Deployment", "spark-operator")["spec"]
    found = spread(two["template"]["spec"])
    assert (found["whenUnsatisfiable"], found["labelSelector"]) == ("ScheduleAnyway", two["selector"])
    (alone,) = dict(operator().pods()).values()
    assert "topologySpreadConstraints" not in alone


@pytest.mark.parametrize("chart", [*SINGLE, "spark-operator", "monitoring"])
def test_servers_have_their_class_where_one_is_named(chart: str) -> None:
    values = dict(samples.EACH.values())[chart]
    for name in ("servers.team", None):
        told = values.model_copy(update={"priority_class": name}).to_helm()
        for where, pod in render(chart, told).pods():
            assert pod.get("priorityClassName") == name, where


def test_a_driver_has_a_class_and_nothing_else_of_its_pipeline_has() -> None:
    """So drivers come before executors."""
    values = pipeline(driver=Driver(priority_class="drivers"), service=Service(module="own.answers"))
    pods = dict(render("streaming-pipeline", values.to_helm()).pods())
    assert len(pods) == 4
    named = {name: pod["priorityClassName"] for name, pod in pods.items() if "priorityClassName" in pod}
    assert named == {"SparkApplication/user-counts/driver": "drivers"}


@pytest.mark.parametrize("chart", SINGLE)
def test_volumes_that_go_with_their_set_are_said_to(chart: str) -> None:
    for retain in (False, True):
        values = SINGLE[chart](image=IMAGE)
        storage = values.storage.model_copy(update={"retain": retain})  # type: ignore[attr-defined]
        one = render(chart, values.model_copy(update={"storage": storage}).to_helm()).one("StatefulSet", chart)
        said = one["metadata"].get("annotations", {}).get("effectively-once/delete-volumes")
        assert said == (None if retain else "true")
