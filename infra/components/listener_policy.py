"""What the API server refuses of files and options of Kafka, PostgreSQL and MinIO: plain connections nobody speaks of.

The policy is the same whatever a stack asks for: a chart that does not encrypt says so on the object. A policy that
followed the setting would meet the preview that changes it, which asks the API server too (docs/adr/0106).
"""

from __future__ import annotations

from typing import Any, Final

import pulumi

from infra.components.api_policy import ApiPolicy
from infra.policy.listeners import VARIABLES
from infra.policy.rules import LISTENERS
from infra.settings import Settings
from infra.values.network import OUR_LABEL

NAMES: Final = ("kafka", "kafka-controller", "postgres", "minio")
"""Of ConfigMaps, and of the StatefulSets whose options say whether they encrypt."""


def name(settings: Settings) -> str:
    """Return the policy's name; it is of the whole cluster, which stacks share."""
    return f"{settings.namespace}-listeners"


def policy() -> dict[str, Any]:
    """Return the `spec` of the policy."""
    operations = ["CREATE", "UPDATE"]
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}
                for group, resource in (("", "configmaps"), ("apps", "statefulsets"))
            ]
        },
        "matchConditions": [{"name": "known", "expression": f"object.metadata.name in {[*NAMES]}"}],
        "variables": [{"name": name, "expression": expression} for name, expression in VARIABLES.items()],
        "validations": [rule.validation for rule in LISTENERS],
    }


def binding(settings: Settings) -> dict[str, Any]:
    """Return the `spec` of its binding: in the platform's namespace it refuses."""
    return {
        "policyName": name(settings),
        "validationActions": ["Deny"],
        "matchResources": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": settings.namespace}},
            "objectSelector": {"matchLabels": OUR_LABEL},
        },
    }


class ListenerPolicy(ApiPolicy):
    """The policy in force."""

    def __init__(self, settings: Settings, after: list[pulumi.Resource], opts: pulumi.ResourceOptions) -> None:
        called = name(settings)
        super().__init__(
            "ListenerPolicy",
            "listener-policy",
            opts,
            called=called,
            spec=policy(),
            bindings={called: binding(settings)},
            after=after,
        )
