"""What holds for every chart."""

from __future__ import annotations

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
def test_selectors_find_their_pods(chart: str, values: Values) -> None:
    """Services, sets and budgets select labels that pods of this release carry."""
    objects = rendered(chart, values)
    pods = [
        one["spec"]["template"]["metadata"]["labels"] for one in objects if one["kind"] in ("StatefulSet", "Deployment")
    ]
    # The StatefulSet's controller adds this one.
    pods += [{**labels, "statefulset.kubernetes.io/pod-name": f"kafka-{n}"} for labels in pods for n in range(3)]
    for one in objects:
        selector = one.get("spec", {}).get("selector")
        # A PodMonitor selects pods of other releases.
        if selector and one["kind"] != "PodMonitor":
            wanted = selector.get("matchLabels", selector)
            assert any(wanted.items() <= labels.items() for labels in pods), one["metadata"]["name"]


@EACH
def test_objects_lie_in_namespaces_of_ours(chart: str, values: Values) -> None:
    """Nothing is cluster-wide, and nothing lands in a namespace that was not named."""
    for one in rendered(chart, values):
        assert one["metadata"].get("namespace", NAMESPACE) in OWN_NAMESPACES
        assert not one["kind"].startswith("Cluster")
        assert one["kind"] not in ("Secret", "Namespace", "CustomResourceDefinition")


@EACH
def test_pods_are_confined(chart: str, values: Values) -> None:
    """Non-root, no privileges, read-only image, no CPU limit; placed and pulled as the values say."""
    pods = list(rendered(chart, values).pods())
    assert pods
    for name, pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["nodeSelector"] == {"disk": "fast"}, name
        assert pod["tolerations"] == [{"key": "stream", "operator": "Exists", "effect": "NoSchedule"}], name
        assert pod["imagePullSecrets"] == [{"name": "pull"}], name
        assert pod["enableServiceLinks"] is False, name
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
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
