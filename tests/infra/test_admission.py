"""What the API server itself refuses in our namespaces, to drivers and of servers: its own word, without a node."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from infra.components import admission, data_plane, image_policy, listener_policy
from infra.components.namespaces import pod_security
from infra.policy import rules
from infra.policy.listeners import PLAIN
from infra.policy.pods import pods
from tests.charts import samples
from tests.charts.deployment import releases
from tests.charts.render import render
from tests.infra.api_server import ApiServer, Object, api_server, missing
from tests.infra.platform import settings
from tests.infra.rule_cases import CASES, PINNED, STRICT, Case, objects

pytestmark = pytest.mark.slow
GEO = {"secret": "geo", "key": "token"}
WANTED = settings(pipelines={"user_counts": {"secrets": {"GEO_TOKEN": GEO}}, "clicks": {"job": "own.clicks"}})
SERVERS = settings(profile="production")
PLATFORM = "effectively-once"
NAMESPACE = f"{PLATFORM}-pipelines"
DRIVER = f"system:serviceaccount:{NAMESPACE}:user-counts"
OTHER = f"system:serviceaccount:{NAMESPACE}:clicks"
RIGHTS = ("ServiceAccount", "Role", "RoleBinding")
Change = dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    if why := missing():
        pytest.skip(why)
    with api_server(tmp_path_factory.mktemp("api")) as running:
        running.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": pod_security()}}
        )
        for name in ("user-counts", "clicks"):
            rendered = render("streaming-pipeline", samples.pipeline(name=name).to_helm(), name)
            rights = copy.deepcopy([one for one in rendered if one["kind"] in RIGHTS])
            for subject in (subject for one in rights for subject in one.get("subjects", ())):
                subject["namespace"] = NAMESPACE
            running.apply(*rights, namespace=NAMESPACE)
        name = admission.name(WANTED)
        running.apply(_policy("", name, admission.policy(WANTED)), _policy("Binding", name, admission.binding(WANTED)))
        yield running


def _policy(of: str, name: str, spec: Object) -> Object:
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"ValidatingAdmissionPolicy{of}"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def executor(pipeline: str = "user-counts", **spec: object) -> Object:
    """Return an executor as Spark makes it of the chart's template."""
    rendered = render("streaming-pipeline", samples.pipeline(name=pipeline).to_helm(), pipeline)
    template = rendered.one("SparkApplication", pipeline)["spec"]["executor"]["template"]
    pod: Object = copy.deepcopy({"apiVersion": "v1", "kind": "Pod", **template})
    pod["metadata"] |= {"name": f"{pipeline}-exec-1", "namespace": NAMESPACE}
    pod["spec"] |= {"serviceAccountName": pipeline, **spec}
    pod["spec"]["containers"][0]["image"] = "spark:1"
    return pod


def refused(server: ApiServer, pod: Object, user: str = DRIVER) -> str | None:
    return server.refusal(user, "create", "--dry-run=server", "--filename", "-", given=pod)


def test_the_policy_is_in_force_within_moments(server: ApiServer) -> None:
    """Everything below would pass without it."""
    for _ in range(60):
        if refused(server, executor("clicks")):
            return
    pytest.fail("a driver may still make pods of another pipeline")


def test_a_driver_makes_changes_and_ends_its_own_executors(server: ApiServer) -> None:
    assert refused(server, executor()) is None
    pod = executor()
    assert server.refusal(DRIVER, "create", "--filename", "-", given=pod) is None
    own = ("--namespace", NAMESPACE, "--selector", "effectively-once/pipeline=user-counts")
    assert server.refusal(DRIVER, "delete", "pods", *own, "--wait=false", "--grace-period=0", "--force") is None


def _secret(name: str) -> Change:
    return {"name": "X", "valueFrom": {"secretKeyRef": {"name": name, "key": "x"}}}


@pytest.mark.parametrize(
    ("where", "change", "says"),
    [
        ("metadata", {"labels": {"effectively-once/pipeline": "clicks"}}, "own label"),
        ("metadata", {"labels": {}}, "own label"),
        ("spec", {"serviceAccountName": "clicks"}, "own service account"),
        ("container", {"env": [_secret("clicks-environment")]}, "variables of its own Secrets"),
        ("container", {"envFrom": [{"secretRef": {"name": "clicks-environment"}}]}, "variables of its own Secrets"),
        ("init", {"env": [_secret("clicks-environment")]}, "variables of its own Secrets"),
        ("volume", {"secret": {"secretName": "clicks-environment"}}, "volumes of its own Secrets"),
        ("volume", {"secret": {"secretName": "clicks-kafka"}}, "volumes of its own Secrets"),
        ("volume", {"projected": {"sources": [{"secret": {"name": "clicks-environment"}}]}}, "volumes of its own"),
        ("volume", {"csi": {"driver": "secrets-store.csi.k8s.io"}}, "volumes of its own Secrets"),
    ],
)
def test_a_driver_is_refused_what_is_not_its_own(server: ApiServer, where: str, change: Change, says: str) -> None:
    pod = executor()
    container = pod["spec"]["containers"][0]
    if where == "volume":
        pod["spec"]["volumes"].append({"name": "x", **change})
    elif where == "init":
        pod["spec"]["initContainers"] = [{**copy.deepcopy(container), "name": "first", "volumeMounts": [], **change}]
    else:
        {"metadata": pod["metadata"], "spec": pod["spec"], "container": container}[where].update(change)
    line = refused(server, pod)
    assert line is not None
    assert says in line
    # Who deploys is not meant by it.
    assert server.run("create", "--dry-run=server", "--filename", "-", given=pod).returncode == 0


@pytest.mark.parametrize("name", ["user-counts-environment", "user-counts-kafka", "geo", *admission.SHARED])
def test_a_driver_uses_its_own_secrets(server: ApiServer, name: str) -> None:
    pod = executor()
    pod["spec"]["containers"][0]["env"].append(_secret(name))
    assert refused(server, pod) is None


def test_a_driver_uses_no_secret_that_another_pipeline_is_given(server: ApiServer) -> None:
    pod = executor("clicks")
    pod["spec"]["containers"][0]["env"].append(_secret("geo"))
    line = refused(server, pod, OTHER)
    assert line is not None
    assert "variables of its own Secrets" in line


def test_a_driver_ends_no_pod_of_another_pipeline(server: ApiServer) -> None:
    server.apply(executor("clicks"))
    line = server.refusal(DRIVER, "--namespace", NAMESPACE, "delete", "pod", "clicks-exec-1", "--wait=false")
    assert line is not None
    assert "own label" in line
    raw = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=effectively-once/pipeline%3Dclicks"
    line = server.refusal(DRIVER, "delete", "--raw", raw)
    assert line is not None
    assert "own label" in line
    assert server.run("--namespace", NAMESPACE, "get", "pod", "clicks-exec-1").returncode == 0
    assert server.refusal(OTHER, "delete", "--raw", raw) is None


@pytest.mark.parametrize(
    "words",
    [
        "get secrets",
        "get configmaps",
        "get serviceaccounts",
        "get pods --namespace=default",
        "patch pod clicks-exec-1 --patch={}",
        "create configmap x",
        "create token clicks",
    ],
)
def test_a_drivers_role_has_nothing_else(server: ApiServer, words: str) -> None:
    server.apply(executor("clicks"))
    line = server.refusal(DRIVER, "--namespace", NAMESPACE, *words.split())
    assert line is not None
    assert "cannot" in line


@pytest.mark.parametrize(
    ("spec", "volume"),
    [
        ({"hostNetwork": True}, {"emptyDir": {}}),
        ({"securityContext": {}}, {"emptyDir": {}}),
        ({}, {"hostPath": {"path": "/"}}),
    ],
)
def test_nobody_makes_a_pod_with_any_privilege(server: ApiServer, spec: Change, volume: Change) -> None:
    pod = executor(**spec)
    pod["spec"]["volumes"].append({"name": "x", **volume})
    done = server.run("create", "--dry-run=server", "--filename", "-", given=pod)
    assert done.returncode
    assert "violates PodSecurity" in done.stderr


@pytest.fixture(scope="module")
def servers(server: ApiServer) -> dict[str, tuple[Object, Object]]:
    """Return StatefulSets with their budgets, by name; the budgets are there, and the policy is in force."""
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLATFORM}})
    rendered = [
        one for name, chart, where, values in releases(SERVERS) for one in render(chart, values.to_helm(), name, where)
    ]
    named = {(one["kind"], one["metadata"]["name"]): one for one in rendered}
    sets = {name: one for (kind, name), one in named.items() if kind == "StatefulSet"}
    both = {name: (one, named["PodDisruptionBudget", name]) for name, one in sets.items()}
    server.apply(*(budget for _, budget in both.values()), namespace=PLATFORM)
    server.apply(_policy("", data_plane.name(SERVERS), data_plane.policy()))
    server.apply(*(_policy("Binding", name, spec) for name, spec in data_plane.bindings(SERVERS)))
    for one in sets.values():
        _until(partial(_tells_apart, server, one, _changed(one, {"whenScaled": "Delete"})))
    return both


def _tells_apart(server: ApiServer, taken: Object, refused: Object) -> bool:
    return refused_set(server, taken) is None and refused_set(server, refused) is not None


def _until(holds: Callable[[], bool]) -> None:
    """Policies, and the budgets that they look at, count within moments."""
    for _ in range(60):
        if holds():
            return
    pytest.fail("it does not come about")


def refused_set(server: ApiServer, one: Object) -> str | None:
    words = ("create", "--dry-run=server", "--namespace", PLATFORM, "--filename", "-")
    done = server.run(*words, given=one)
    return done.stderr.strip() if done.returncode else None


def _changed(one: Object, retention: Change, marks: Change | None = None) -> Object:
    changed = copy.deepcopy(one)
    changed["spec"]["persistentVolumeClaimRetentionPolicy"] |= retention
    changed["metadata"]["annotations"] = marks or {}
    return changed


NAMES = ["kafka", "kafka-controller", "minio", "postgres"]
Servers = dict[str, tuple[Object, Object]]


@pytest.mark.parametrize("name", NAMES)
def test_a_set_that_lets_its_volumes_go_is_refused_unless_it_says_so(
    server: ApiServer, servers: Servers, name: str
) -> None:
    one, _ = servers[name]
    said = {rules.DELETED: "true"}
    for change, marks, expected in (
        ({"whenDeleted": "Delete"}, {}, "volumes would go with this set"),
        ({"whenDeleted": "Delete"}, {rules.DELETED: "false"}, "volumes would go with this set"),
        ({"whenScaled": "Delete"}, said, "volumes would go when this set is scaled down"),
    ):
        assert expected in (refused_set(server, _changed(one, change, marks)) or "")
    assert refused_set(server, _changed(one, {"whenDeleted": "Delete"}, said)) is None


def test_a_set_that_is_there_keeps_its_volumes(server: ApiServer, servers: Servers) -> None:
    server.apply(servers["postgres"][0], namespace=PLATFORM)
    patch = json.dumps({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}})
    done = server.run("--namespace", PLATFORM, "patch", "statefulset", "postgres", "--type=merge", f"--patch={patch}")
    gone = server.run("--namespace", PLATFORM, "delete", "statefulset", "postgres")
    assert gone.returncode == 0, gone.stderr
    assert done.returncode
    assert "volumes would go with this set" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_set_without_a_budget_for_its_pods_is_refused(server: ApiServer, servers: Servers, name: str) -> None:
    """And no other is."""
    one, budget = servers[name]
    other = copy.deepcopy(budget)
    other["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] = "other"
    try:
        assert server.run("--namespace", PLATFORM, "delete", "pdb", name).returncode == 0
        _until(lambda: "no params found" in (refused_set(server, one) or ""))
        assert [each for each in NAMES if refused_set(server, servers[each][0])] == [name]
        server.apply(other, namespace=PLATFORM)
        _until(lambda: "is for other pods" in (refused_set(server, one) or ""))
    finally:
        server.apply(budget, namespace=PLATFORM)
    _until(lambda: refused_set(server, one) is None)


def test_a_set_of_others_is_not_looked_at(server: ApiServer, servers: Servers) -> None:
    other = copy.deepcopy(servers["postgres"][0])
    other["metadata"] = {"name": "other"}
    assert refused_set(server, _changed(other, {"whenDeleted": "Delete"})) is None


def _made(one: Object) -> Object:
    """Return a pod as a controller or Spark makes it of an object."""
    labels = {"app.kubernetes.io/part-of": "effectively-once"}
    (_, pod), *_ = pods(one)
    # Their volumes and accounts are not here, and nothing looks at them.
    spec = {**pod, "volumes": [{"name": name, "emptyDir": {}} for name in sorted(_mounts(pod))]}
    spec = {key: value for key, value in spec.items() if key not in ("serviceAccountName", "priorityClassName")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "made", "labels": labels}, "spec": spec}


def _mounts(pod: Object) -> set[str]:
    return {mount["name"] for one in pod["containers"] for mount in one.get("volumeMounts", [])}


@pytest.fixture(scope="module")
def images(servers: Servers, server: ApiServer) -> ApiServer:
    """Return the server with the policy on images in force, in the platform's namespace."""
    name = image_policy.name(STRICT)
    server.apply(_policy("", name, image_policy.policy(STRICT)), _policy("Binding", name, image_policy.binding(STRICT)))
    name = listener_policy.name(STRICT)
    server.apply(_policy("", name, listener_policy.policy()), _policy("Binding", name, listener_policy.binding(STRICT)))
    (image, *_), (listener, *_) = (
        [case.bad for case in CASES if case.rule == rule] for rule in ("tagged-images", "kafka-encrypted")
    )
    _until(lambda: refused_set(server, _made(image)) is not None and refused_set(server, listener) is not None)
    return server


JUDGED = [case for case in CASES if next(rule for rule in rules.RULES if rule.name == case.rule).expression]


@pytest.mark.parametrize("case", JUDGED, ids=str)
def test_the_server_refuses_what_a_preview_does(images: ApiServer, case: Case) -> None:
    good, bad = case.good, case.bad
    if "images" in case.rule:
        good, bad = _made(good), _made(bad)
    (rule,) = (rule for rule in rules.RULES if rule.name == case.rule)
    assert refused_set(images, good) is None
    assert rule.message in (refused_set(images, bad) or "")


@pytest.mark.parametrize("case", [case for case in CASES if case.rule.endswith("-encrypted")], ids=str)
def test_plain_listeners_are_taken_where_a_chart_says_so(images: ApiServer, case: Case) -> None:
    one = case.bad
    one["metadata"]["annotations"] = {PLAIN: "true"}
    assert refused_set(images, one) is None


@pytest.mark.parametrize("level", ["all", "each"])
@pytest.mark.parametrize("profile", ["laptop", "production"])
def test_what_charts_make_with_and_without_security_is_taken(images: ApiServer, profile: str, level: str) -> None:
    wanted = settings(profile=profile, security={"level": level})
    found = [one for one in objects(wanted) if one["kind"] in ("ConfigMap", "StatefulSet")]
    platform = [one for one in found if one["metadata"]["namespace"] == PLATFORM]
    assert len(platform) > 3
    assert [line for one in platform if (line := refused_set(images, one))] == []


def _with_image(name: str, image: str, **labels: str) -> Object:
    pod = executor()
    pod["metadata"] = {"name": name, "namespace": PLATFORM, "labels": labels}
    pod["spec"]["containers"][0]["image"] = image
    return pod


def test_a_pod_of_others_is_not_looked_at(images: ApiServer) -> None:
    assert refused_set(images, _with_image("other", "x:latest", app="other")) is None
    ours = {"effectively-once/pipeline": "clicks"}
    assert "digest" in (refused_set(images, _with_image("other", "x:latest", **ours)) or "")


def test_a_pod_that_is_there_is_changed_but_for_its_image(images: ApiServer) -> None:
    """Whatever was asked for when it was made: Spark and its operator change labels and owners."""
    made = _with_image("there", "x:latest", app="other")
    images.apply(made, namespace=PLATFORM)
    words = ("--namespace", PLATFORM, "patch", "pod", "there", "--type=merge")
    ours = {"metadata": {"labels": {"effectively-once/pipeline": "clicks"}}}
    taken = images.run(*words, f"--patch={json.dumps(ours)}")
    assert taken.returncode == 0, taken.stderr
    container = made["spec"]["containers"][0]["name"]
    for image, allowed in ((PINNED, True), ("y:latest", False)):
        patch = {"spec": {"containers": [{"name": container, "image": image}]}}
        done = images.run(*words[:-1], "--type=strategic", f"--patch={json.dumps(patch)}", "--dry-run=server")
        assert (done.returncode == 0) == allowed, done.stderr
