"""The policy on drivers is made where a cluster knows such policies; what it refuses is in test_admission.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.components import admission
from tests.infra.platform import crds, deploy, settings

WANTED = settings(pipelines={"user_counts": {}, "clicks": {"job": "own.clicks"}})


def test_the_program_registers_it_with_its_binding(tmp_path: Path) -> None:
    engine = deploy(WANTED, crds(tmp_path)).engine
    made = engine.of("ValidatingAdmissionPolicy")["effectively-once-drivers"]
    bound = engine.of("ValidatingAdmissionPolicyBinding")["effectively-once-drivers"]
    assert made.inputs["metadata"]["name"] == bound.inputs["spec"]["policyName"] == "effectively-once-drivers"
    for name in ("user-counts", "clicks"):
        driver = f"system:serviceaccount:effectively-once-pipelines:{name}"
        assert f'"{driver}"' in made.inputs["spec"]["matchConditions"][0]["expression"]
    assert bound.inputs["spec"]["validationActions"] == ["Deny"]
    selector = bound.inputs["spec"]["matchResources"]["namespaceSelector"]["matchLabels"]
    assert selector == {"kubernetes.io/metadata.name": "effectively-once-pipelines"}
    without = deploy(settings(pipelines={}), crds(tmp_path)).engine
    assert "effectively-once-drivers" not in without.of("ValidatingAdmissionPolicy")


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
    asked: list[str] = []

    def find(path: str) -> dict[str, Any] | None:
        asked.append(path)
        return found

    assert admission.supported(find) is expected
    assert asked == ["/apis/admissionregistration.k8s.io/v1"]
