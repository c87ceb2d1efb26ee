"""Policies of the API server fit what is deployed, where it knows such; what they refuse is in test_admission.py."""

from __future__ import annotations

from typing import Any

import pytest

from infra.components import admission, data_plane
from infra.policy import rules
from tests.infra.platform import deploy_once, settings
from tests.infra.rule_cases import objects

PIPELINES = settings(pipelines={"user_counts": {}, "clicks": {"job": "own.clicks"}})
WATCHED: dict[str, Any] = {"monitoring": {"enabled": True}, "images": {"monitoring": "effectively-once-monitoring:1"}}
EXTERNAL: dict[str, Any] = {
    "kafka": {"external": "broker.example:9092"},
    "object_store": {"external": {"endpoint": "https://s3.example", "credentials_secret": "vault/s3"}},
    "result_store": {"enabled": False},
}


def test_the_program_registers_that_on_drivers_with_its_binding() -> None:
    engine = deploy_once(PIPELINES).engine
    made = engine.of("ValidatingAdmissionPolicy")["effectively-once-drivers"]
    bound = engine.of("ValidatingAdmissionPolicyBinding")["effectively-once-drivers"]
    assert made.inputs["metadata"]["name"] == bound.inputs["spec"]["policyName"] == "effectively-once-drivers"
    for name in ("user-counts", "clicks"):
        driver = f"system:serviceaccount:effectively-once-pipelines:{name}"
        assert f'"{driver}"' in made.inputs["spec"]["matchConditions"][0]["expression"]
    assert bound.inputs["spec"]["validationActions"] == ["Deny"]
    selector = bound.inputs["spec"]["matchResources"]["namespaceSelector"]["matchLabels"]
    assert selector == {"kubernetes.io/metadata.name": "effectively-once-pipelines"}
    without = deploy_once(settings(pipelines={})).engine
    assert "effectively-once-drivers" not in without.of("ValidatingAdmissionPolicy")


@pytest.mark.parametrize("what", ["environment", "kafka", "result-store", "object-store", "spark"])
def test_a_driver_may_mount_the_secrets_that_the_program_makes_for_it(what: str) -> None:
    (secrets,) = (one for one in admission.policy(PIPELINES)["variables"] if one["name"] == "secrets")
    assert f"variables.pipeline + '-{what}'" in secrets["expression"]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, False),
        ({"resources": [{"name": "validatingwebhookconfigurations"}]}, False),
        ({"resources": [{"name": "validatingadmissionpolicies"}]}, True),
    ],
)
def test_a_cluster_that_knows_no_such_policies_is_told_from_one_that_does(
    found: dict[str, Any] | None, *, expected: bool
) -> None:
    answers = {"/apis/admissionregistration.k8s.io/v1": found}
    assert admission.supported(answers.__getitem__) is expected


@pytest.mark.parametrize("given", [*({"profile": name} for name in ("laptop", "brokers", "ha", "production")), WATCHED])
def test_each_stateful_set_has_one_binding_that_finds_it_and_its_budget(given: dict[str, Any]) -> None:
    wanted = settings(**given)
    every = [*objects(wanted)]
    sets = [one for one in every if one["kind"] == "StatefulSet"]
    named = {one["metadata"]["name"]: one for one in every if one["kind"] == "PodDisruptionBudget"}
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


def test_that_on_sets_comes_into_force_when_they_are_there() -> None:
    """Before, it might miss a budget that was made a moment ago."""
    engine = deploy_once(settings(profile="production", **WATCHED)).engine
    made = engine.of("ValidatingAdmissionPolicy")["effectively-once-data-plane"]
    bindings = engine.of("ValidatingAdmissionPolicyBinding").values()
    bound = [one for one in bindings if one.inputs["spec"]["policyName"] == made.name]
    assert len(bound) == 5
    for one in (made, *bound):
        assert {"kafka", "minio", "postgres", "monitoring"} <= engine.below(one)


def test_servers_of_others_are_none_of_its_business() -> None:
    engine = deploy_once(settings(**EXTERNAL)).engine
    made = {f"effectively-once-{what}" for what in ("drivers", "images", "listeners")}
    assert set(engine.of("ValidatingAdmissionPolicy")) == made
