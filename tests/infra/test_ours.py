"""What was there before us stays when a stack is destroyed, and so do the CRDs that others may use by then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest

from infra.cluster.api import Api, ApiError
from infra.components.namespaces import ENFORCE, MAKER, MARK, find_brought, names, open_doors
from infra.components.spark_operator import _keep
from tests.infra.platform import crds, deploy, settings

PLATFORM, OPERATOR, PIPELINES = "effectively-once", "effectively-once-operator", "effectively-once-pipelines"


class FakeCluster(Api):
    """Namespaces by name with their annotations and labels; everything else is not there."""

    def __init__(self, status: int = 404, **namespaces: dict[str, str] | None) -> None:
        self.status, self.namespaces = status, {name.replace("_", "-"): one for name, one in namespaces.items()}

    def get(self, path: str, **_: str) -> dict[str, Any]:
        name = path.removeprefix("/api/v1/namespaces/")
        if name not in self.namespaces:
            raise ApiError(self.status, "no", path)
        return {"metadata": {"name": name, "annotations": self.namespaces[name], "labels": self.namespaces[name]}}


def test_a_namespace_that_is_there_without_our_mark_was_brought() -> None:
    there = FakeCluster(effectively_once={MARK: MAKER}, effectively_once_pipelines=None)
    assert find_brought(settings(), there.find) == {PIPELINES: None}
    assert find_brought(settings(), FakeCluster(effectively_once={MARK: "somebody"}).find) == {PLATFORM: None}


def test_on_an_empty_cluster_all_are_ours() -> None:
    assert find_brought(settings(), FakeCluster().find) == {}


def test_without_an_answer_nothing_is_taken_for_ours() -> None:
    with pytest.raises(ApiError, match="403"):
        find_brought(settings(), FakeCluster(status=403).find)


def test_an_installed_operator_has_a_namespace_that_is_none_of_our_business() -> None:
    assert names(settings(spark_operator={"installed": True})) == (PLATFORM, PIPELINES)


@pytest.mark.parametrize("delete", [True, False])
def test_a_namespace_that_was_brought_stays_and_is_not_marked_as_ours(*, delete: bool, tmp_path: Path) -> None:
    wanted = settings(profile="ci", storage={"delete_volumes": delete})
    made = deploy(wanted, crds(tmp_path), {PIPELINES: None, PLATFORM: None}).engine.of("Namespace")
    assert {name: one.retained for name, one in made.items()} == {PLATFORM: True, OPERATOR: False, PIPELINES: True}
    marked = {name for name, one in made.items() if MARK in one.inputs["metadata"].get("annotations", {})}
    assert marked == {OPERATOR}


def test_our_namespaces_refuse_privileged_pods_and_those_that_were_brought_keep_their_labels(tmp_path: Path) -> None:
    made = deploy(settings(), crds(tmp_path), {PIPELINES: "baseline"}).engine.of("Namespace")
    told = {name: one.inputs["metadata"]["labels"].get(ENFORCE) for name, one in made.items()}
    assert told == {PLATFORM: "restricted", OPERATOR: "restricted", PIPELINES: None}
    ours = made[PLATFORM].inputs["metadata"]["labels"]
    assert ours["pod-security.kubernetes.io/enforce-version"] == "v1.36"
    assert ours["pod-security.kubernetes.io/warn"] == "restricted"


def test_a_namespace_that_was_brought_without_pod_security_is_named_with_the_command() -> None:
    there = find_brought(
        settings(),
        FakeCluster(
            effectively_once=None,
            effectively_once_operator={ENFORCE: "baseline"},
            effectively_once_pipelines={ENFORCE: "restricted"},
        ).find,
    )
    none, some = open_doors(there)
    assert f"{PLATFORM} was there before and enforces no pod security;" in none
    assert f"{OPERATOR} was there before and enforces baseline;" in some
    assert some.endswith(f"kubectl label namespace {OPERATOR} {ENFORCE}=restricted")


def test_crds_stay_when_the_stack_is_destroyed(tmp_path: Path) -> None:
    group = deploy(settings(), crds(tmp_path)).engine.of("ConfigGroup")["spark-operator-crds"]
    assert group.transforms == ("_keep",)
    kind, props = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition", {"metadata": {"name": "x"}, "spec": {}}
    found = _keep(
        pulumi.ResourceTransformArgs(custom=True, type_=kind, name="x", props=props, opts=pulumi.ResourceOptions())
    )
    assert found.opts.retain_on_delete is True
    assert found.props == props, "a field manager of another name could not change what is there"
