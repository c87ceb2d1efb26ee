"""What the API server refuses of images: one that moves under its name, and any without a digest where a stack asks.

A ValidatingAdmissionPolicy on the platform's own pods. Pods come from controllers, which try again: so it may come into
force, and go, while pods are made (docs/adr/0106).
"""

from __future__ import annotations

from typing import Any, Final

import pulumi

from infra.components.admission import PIPELINE
from infra.components.api_policy import ApiPolicy
from infra.components.release import PART_OF
from infra.policy.rules import IMAGES
from infra.settings import Settings

_OURS: Final = (
    f"has(object.metadata.labels) && (object.metadata.labels[?'app.kubernetes.io/part-of'].orValue('') == '{PART_OF}' "
    f"|| '{PIPELINE}' in object.metadata.labels)"
)
_RUN: Final = "({0}.spec.containers + {0}.spec.?initContainers.orValue([])).map(c, c.image)"


def name(settings: Settings) -> str:
    """Return the policy's name; it is of the whole cluster, which stacks share."""
    return f"{settings.namespace}-images"


def policy(settings: Settings) -> dict[str, Any]:
    """Return the `spec` of the policy: a pod that is there keeps what it runs, whatever is asked for by now."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
            ]
        },
        "matchConditions": [{"name": "ours", "expression": _OURS}],
        "variables": [
            {"name": "before", "expression": f"oldObject == null ? [] : {_RUN.format('oldObject')}"},
            {"name": "images", "expression": f"{_RUN.format('object')}.filter(i, !(i in variables.before))"},
        ],
        "validations": [rule.validation for rule in IMAGES if rule.asked(settings.security)],
    }


def binding(settings: Settings) -> dict[str, Any]:
    """Return the `spec` of its binding: in the stack's namespaces it refuses."""
    namespaces = [settings.namespace, settings.operator_namespace, settings.pipelines_namespace]
    among = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
    return {
        "policyName": name(settings),
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchExpressions": [among]}},
    }


class ImagePolicy(ApiPolicy):
    """The policy in force."""

    def __init__(self, settings: Settings, opts: pulumi.ResourceOptions) -> None:
        called = name(settings)
        super().__init__(
            "ImagePolicy",
            "image-policy",
            opts,
            called=called,
            spec=policy(settings),
            bindings={called: binding(settings)},
        )
