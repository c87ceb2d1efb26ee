"""What holds for every chart."""

from __future__ import annotations

from typing import Any

import pytest

from infra.values.common import Values
from infra.values.generate import CHARTS, MODELS, generate
from tests.charts import samples
from tests.charts.render import NAMESPACE, Object, Rendered, helm, render

EACH = pytest.mark.parametrize(("chart", "values"), samples.EACH.values(), ids=samples.EACH.keys())
OWN_NAMESPACES = {"pipelines", "more", NAMESPACE}


def rendered(chart: str, values: Values) -> Rendered:
    return render(chart, values.to_helm())


def test_every_chart_has_a_model_and_a_sample() -> None:
    """No chart is left out of these tests."""
    folders = {path.parent.name for path in CHARTS.glob("*/Chart.yaml")}
    assert folders == set(MODELS) == {chart for chart, _ in samples.EACH.values()}


def test_schema_and_defaults_are_those_of_the_models() -> None:
    """`python -m infra.values` has nothing to write."""
    assert {str(path) for path, text in generate(CHARTS).items() if path.read_text() != text} == set()


@EACH
def test_lint(chart: str, values: Values) -> None:
    """`helm lint --strict` has nothing to say."""
    answer = helm("lint", "--strict", "--quiet", str(CHARTS / chart), values=values.to_helm())
    assert answer.returncode == 0, answer.stdout + answer.stderr


@EACH
def test_unknown_value_is_refused(chart: str, values: Values) -> None:
    """The schema names a value that no model has."""
    answer = helm("template", "x", str(CHARTS / chart), values={**values.to_helm(), "imgae": "typo"})
    assert answer.returncode != 0
    assert "imgae" in answer.stderr


@EACH
def test_labels(chart: str, values: Values) -> None:
    """Every object tells what it belongs to; pods too."""
    for one in rendered(chart, values):
        templates = [one["metadata"]["labels"]]
        if "template" in one.get("spec", {}):
            templates.append(one["spec"]["template"]["metadata"]["labels"])
        for labels in templates:
            assert labels["app.kubernetes.io/part-of"] == "effectively-once"
            # A Job's pod beside a server is no part of it: a Service sends requests to all pods of the server's name.
            assert labels["app.kubernetes.io/name"].removesuffix("-grant") == chart


@EACH
def test_selectors_find_their_pods_and_none_of_a_job(chart: str, values: Values) -> None:
    """A Service sends requests to every pod that its selector is of, and a Job's pod is as ready as another."""
    objects = rendered(chart, values)
    servers = [*objects.of("StatefulSet"), *objects.of("Deployment")]
    pods, jobs = (
        [one["spec"]["template"]["metadata"]["labels"] for one in each] for each in (servers, objects.of("Job"))
    )
    # The StatefulSet's controller adds this one.
    pods += [{**labels, "statefulset.kubernetes.io/pod-name": f"kafka-{n}"} for labels in pods for n in range(3)]
    for one in objects:
        selector = one.get("spec", {}).get("selector")
        # A PodMonitor selects pods of other releases.
        if selector and one["kind"] != "PodMonitor":
            wanted = selector.get("matchLabels", selector).items()
            assert any(wanted <= labels.items() for labels in pods), one["metadata"]["name"]
            assert not any(wanted <= labels.items() for labels in jobs), one["metadata"]["name"]


GRANTS: dict[str, list[dict[str, Any]]] = {
    "kafka-secured": [{"version": "1-0"}],
    "minio-secured": [{"users_secret": "minio-users-1"}, {"folders": ()}, {"tls_secret": "minio-tls-1-0"}],
    "postgres-secured": [{"users_secret": "postgres-users-1-0"}],
}


@pytest.mark.parametrize("name", GRANTS)
def test_other_users_or_renewed_secrets_are_another_job_that_gives_rights(name: str) -> None:
    """A Job cannot be changed; the same one is not run again."""
    chart, values = samples.EACH[name]
    security = values.security  # type: ignore[attr-defined]
    nobody: Any = () if name == "postgres-secured" else {}
    others = [{"users": nobody}, {"grant_image": "registry.example/spark:2"}, *GRANTS[name]]
    made = set()
    for change in ({}, {}, *others):
        (job,) = rendered(chart, values.model_copy(update={"security": security.model_copy(update=change)})).of("Job")
        made.add(job["metadata"]["name"])
    assert len(made) == 1 + len(others)


@EACH
def test_objects_lie_in_namespaces_of_ours(chart: str, values: Values) -> None:
    """Nothing is cluster-wide, and nothing lands in a namespace that was not named."""
    for one in rendered(chart, values):
        assert one["metadata"].get("namespace", NAMESPACE) in OWN_NAMESPACES
        assert not one["kind"].startswith("Cluster")
        assert one["kind"] not in ("Secret", "Namespace", "CustomResourceDefinition")


@EACH
def test_pods_are_confined(chart: str, values: Values) -> None:
    """Read-only image, no CPU limit; placed and pulled as the values say. Privileges: test_restricted.py."""
    pods = list(rendered(chart, values).pods())
    assert pods
    for name, pod in pods:
        assert pod["nodeSelector"] == {"disk": "fast"}, name
        assert pod["tolerations"] == [{"key": "stream", "operator": "Exists", "effect": "NoSchedule"}], name
        assert pod["imagePullSecrets"] == [{"name": "pull"}], name
        assert pod["enableServiceLinks"] is False, name
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True, name
            assert "cpu" not in container.get("resources", {}).get("limits", {})
            _volumes_match(name, pod, container, rendered(chart, values))


@EACH
def test_only_those_with_rights_have_a_token(chart: str, values: Values) -> None:
    """The operator, drivers and Prometheus speak to Kubernetes; nobody else gets a token."""
    with_token = {name for name, pod in rendered(chart, values).pods() if pod["automountServiceAccountToken"]}
    expected = {
        "spark-operator": {"Deployment/spark-operator"},
        "monitoring": {"StatefulSet/prometheus"},
        "streaming-pipeline": {"SparkApplication/user-counts/driver"},
    }
    assert with_token == expected.get(chart, set())


def _volumes_match(name: str, pod: Object, container: Object, objects: Rendered) -> None:
    """Every mount has its volume, and every ConfigMap that is mounted exists."""
    claims = [
        claim["metadata"]["name"] for one in objects.of("StatefulSet") for claim in one["spec"]["volumeClaimTemplates"]
    ]
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes | set(claims), name
    for volume in pod.get("volumes", []):
        if "configMap" in volume:
            objects.one("ConfigMap", volume["configMap"]["name"])
