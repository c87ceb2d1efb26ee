"""What a driver may do with pods, beyond what its role can say: RBAC knows no labels, and nothing of what is in a pod.

A ValidatingAdmissionPolicy: the API server itself refuses. Who may make pods in a namespace could otherwise have any
Secret of it mounted, and end the pods of every pipeline (docs/adr/0064).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pulumi

from infra.components.api_policy import ApiPolicy
from infra.components.clients import DATABASE_CA, DATABASE_SUFFIX, KAFKA_SUFFIX, OBJECT_STORE_CA
from infra.components.credentials import DATABASE, OBJECT_STORE
from infra.components.kafka_security import CAMPAIGNS
from infra.components.object_security import SUFFIX as OBJECT_STORE_SUFFIX
from infra.components.spark_secrets import SUFFIX as SPARK_SUFFIX
from infra.components.streaming_pipeline import kubernetes_name
from infra.components.volumes import Find
from infra.settings import Settings

API: Final = "/apis/admissionregistration.k8s.io/v1"
MISSING: Final = (
    "this Kubernetes has no ValidatingAdmissionPolicy (1.30 has): a driver may end pods of other pipelines, and "
    "have their Secrets mounted"
)
PIPELINE: Final = "effectively-once/pipeline"
SHARED: Final = (OBJECT_STORE, DATABASE, OBJECT_STORE_CA, DATABASE_CA)
SUFFIXES: Final = ("-environment", KAFKA_SUFFIX, DATABASE_SUFFIX, OBJECT_STORE_SUFFIX, SPARK_SUFFIX)
OWN: Final = ", ".join(f"variables.pipeline + {suffix!r}" for suffix in SUFFIXES)
"""Secrets that every driver may use, and those that the program makes for one pipeline."""
_OWN: Final = f"has(o.metadata.labels) && o.metadata.labels[?'{PIPELINE}'].orValue('') == variables.pipeline"


def supported(find: Find) -> bool:
    """Return whether the cluster knows such policies."""
    resources = (find(API) or {}).get("resources") or []
    return any(one["name"] == "validatingadmissionpolicies" for one in resources)


def name(settings: Settings) -> str:
    """Return the policy's name; it is of the whole cluster, which stacks share."""
    return f"{settings.namespace}-drivers"


def wrong_secrets(settings: Settings) -> Iterator[str]:
    """Yield a line per variable of a Secret that the program makes: its content, and who may use it, are not theirs."""
    users = (one.replace("_", "-") for one in settings.kafka.users)
    names = [*map(kubernetes_name, settings.pipelines.values()), *users]
    ours = {*SHARED, f"{CAMPAIGNS}{KAFKA_SUFFIX}", *(f"{name}{suffix}" for name in names for suffix in SUFFIXES)}
    for name, one in settings.pipelines.items():
        for variable, entry in one.secrets.items():
            if entry.secret in ours:
                where = f"pipelines.{name}.secrets.{variable}"
                yield f"{where}: Secret {entry.secret!r} is this program's own; name one that your tools make"


def _secrets(settings: Settings) -> str:
    """Return the expression for the Secrets that a driver may use."""
    given = {
        kubernetes_name(one): sorted({entry.secret for entry in one.secrets.values()})
        for one in settings.pipelines.values()
        if one.secrets
    }
    named = f" + {json.dumps(given)}[?variables.pipeline].orValue([])" if given else ""
    return f"[{', '.join(map(repr, SHARED))}] + [{OWN}]{named}"


def policy(settings: Settings) -> dict[str, Any]:
    """Return the `spec` of the policy: it looks at nobody but the drivers of this stack's pipelines."""
    account = f"system:serviceaccount:{settings.pipelines_namespace}:"
    drivers = [f"{account}{kubernetes_name(one)}" for one in settings.pipelines.values()]
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": ["pods"],
                }
            ]
        },
        "matchConditions": [{"name": "a-driver", "expression": f"request.userInfo.username in {json.dumps(drivers)}"}],
        "variables": [
            {"name": "pipeline", "expression": "request.userInfo.username.split(':')[3]"},
            {"name": "secrets", "expression": _secrets(settings)},
            {
                "name": "containers",
                "expression": "object == null ? [] : object.spec.containers + object.spec.?initContainers.orValue([])",
            },
            {"name": "volumes", "expression": "object == null ? [] : object.spec.?volumes.orValue([])"},
        ],
        "validations": [
            {
                "expression": f"[object, oldObject].all(o, o == null || ({_OWN}))",
                "message": f"a driver makes, changes and deletes only pods with its own label {PIPELINE}",
            },
            {
                "expression": "object == null || object.spec.?serviceAccountName.orValue('') == variables.pipeline",
                "message": "a driver makes pods with its own service account only",
            },
            {
                "expression": "variables.containers.all(c, "
                "c.?env.orValue([]).all(e, e.?valueFrom.?secretKeyRef.?name.orValue(variables.secrets[0]) "
                "in variables.secrets) && "
                "c.?envFrom.orValue([]).all(e, e.?secretRef.?name.orValue(variables.secrets[0]) in variables.secrets))",
                "message": "a driver makes pods with variables of its own Secrets only",
            },
            {
                "expression": "variables.volumes.all(v, "
                "v.?secret.?secretName.orValue(variables.secrets[0]) in variables.secrets && "
                "v.?projected.?sources.orValue([]).all(s, s.?secret.?name.orValue(variables.secrets[0]) "
                "in variables.secrets) && !has(v.csi))",
                "message": "a driver makes pods with volumes of its own Secrets only",
            },
        ],
    }


def binding(settings: Settings) -> dict[str, Any]:
    """Return the `spec` of its binding: in the pipelines' namespace it refuses."""
    return {
        "policyName": name(settings),
        "validationActions": ["Deny"],
        "matchResources": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": settings.pipelines_namespace}}
        },
    }


class Admission(ApiPolicy):
    """The policy in force; nothing without pipelines."""

    def __init__(self, settings: Settings, opts: pulumi.ResourceOptions) -> None:
        called = name(settings)
        bindings = {called: binding(settings)} if settings.pipelines else {}
        super().__init__("Admission", "admission", opts, called=called, spec=policy(settings), bindings=bindings)
