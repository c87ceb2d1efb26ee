"""What the API server refuses of the platform's StatefulSets: one without a budget, and one that lets its volumes go.

A ValidatingAdmissionPolicy whose parameter is the budget itself, found by the name of its StatefulSet. It is put in
force when the StatefulSets are there: what the program makes is right by its tests, and what is changed afterwards, by
whomever, is looked at (docs/adr/0097).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pulumi

from infra.components.api_policy import ApiPolicy
from infra.components.volumes import list_volumes
from infra.policy.rules import DATA_PLANE, OTHER_PODS, VOLUMES
from infra.settings import Settings


def name(settings: Settings) -> str:
    """Return the policy's name; it is of the whole cluster, which stacks share."""
    return f"{settings.namespace}-data-plane"


def policy() -> dict[str, Any]:
    """Return the `spec` of the policy."""
    return {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"},
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["apps"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["statefulsets"],
                }
            ]
        },
        "validations": [
            {
                "expression": "params.spec.selector.matchLabels == object.spec.selector.matchLabels",
                "message": OTHER_PODS,
            },
            *(rule.validation for rule in VOLUMES),
        ],
    }


def bindings(settings: Settings) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and `spec` of a binding for each StatefulSet: no budget of its name, and it is refused."""
    for _, stateful_set, _ in list_volumes(settings):
        yield (
            f"{name(settings)}-{stateful_set}",
            {
                "policyName": name(settings),
                "validationActions": ["Deny"],
                "paramRef": {
                    "name": stateful_set,
                    "namespace": settings.namespace,
                    "parameterNotFoundAction": "Deny",
                },
                "matchResources": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": settings.namespace}},
                    "objectSelector": {"matchLabels": DATA_PLANE[stateful_set]},
                },
            },
        )


class DataPlane(ApiPolicy):
    """The policy in force; nothing where all servers are somebody else's."""

    def __init__(self, settings: Settings, after: list[pulumi.Resource], opts: pulumi.ResourceOptions) -> None:
        super().__init__(
            "DataPlane",
            "data-plane",
            opts,
            called=name(settings),
            spec=policy(),
            bindings=dict(bindings(settings)),
            after=after,
        )
