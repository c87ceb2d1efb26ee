"""The policy on the platform's StatefulSets fits what is deployed; what it refuses is in test_admission.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.components import data_plane
from infra.policy import rules
from tests.charts.deployment import releases
from tests.charts.render import Object, render
from tests.infra.platform import crds, deploy, settings

EXTERNAL: dict[str, Any] = {
    "kafka": {"external": "broker.example:9092"},
    "object_store": {"external": {"endpoint": "https://s3.example", "credentials_secret": "vault/s3"}},
    "result_store": {"enabled": False},
}


WATCHED: dict[str, Any] = {"monitoring": {"enabled": True}, "images": {"monitoring": "effectively-once-monitoring:1"}}


@pytest.mark.parametrize("given", [*({"profile": name} for name in ("laptop", "brokers", "ha", "production")), WATCHED])
def test_each_stateful_set_has_one_binding_that_finds_it_and_its_budget(given: dict[str, Any]) -> None:
    wanted = settings(**given)
    objects: list[Object] = []
    for release, chart, namespace, values in releases(wanted):
        for one in render(chart, values.to_helm(), release, namespace):
            objects.append({**one, "metadata": {"namespace": namespace, **one["metadata"]}})
    sets = [one for one in objects if one["kind"] == "StatefulSet"]
    named = {one["metadata"]["name"]: one for one in objects if one["kind"] == "PodDisruptionBudget"}
    bound = dict(data_plane.bindings(wanted))
    assert len(sets) == len(bound)
    for one in sets:
        (spec,) = (
            spec
            for spec in bound.values()
            if spec["matchResources"]["objectSelector"]["matchLabels"].items() <= one["metadata"]["labels"].items()
        )
        where = spec["matchResources"]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        assert where == spec["paramRef"]["namespace"] == one["metadata"]["namespace"]
        assert spec["paramRef"]["parameterNotFoundAction"] == "Deny"
        budget = named[spec["paramRef"]["name"]]
        assert budget["metadata"]["namespace"] == where
        assert budget["spec"]["selector"]["matchLabels"] == one["spec"]["selector"]["matchLabels"]
        kept = one["spec"]["persistentVolumeClaimRetentionPolicy"]
        assert kept["whenScaled"] == "Retain"
        said = one["metadata"].get("annotations", {}).get(rules.DELETED)
        assert kept["whenDeleted"] == "Retain" or said == "true"


def test_it_comes_into_force_when_the_sets_are_there(tmp_path: Path) -> None:
    """Before, it might miss a budget that was made a moment ago."""
    engine = deploy(settings(profile="production", **WATCHED), crds(tmp_path)).engine
    made = engine.of("ValidatingAdmissionPolicy")["effectively-once-data-plane"]
    bound = [
        one
        for one in engine.of("ValidatingAdmissionPolicyBinding").values()
        if one.inputs["spec"]["policyName"] == made.name
    ]
    assert len(bound) == 5
    for one in (made, *bound):
        assert {"kafka", "minio", "postgres", "monitoring"} <= engine.below(one)


def test_servers_of_others_are_none_of_its_business(tmp_path: Path) -> None:
    engine = deploy(settings(**EXTERNAL), crds(tmp_path)).engine
    assert set(engine.of("ValidatingAdmissionPolicy")) == {
        f"effectively-once-{what}" for what in ("drivers", "images", "listeners")
    }
