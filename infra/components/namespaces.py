"""The namespaces of platform, operator and pipelines, and what Kubernetes refuses to run in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pulumi
from pulumi_kubernetes.core.v1 import Namespace

from infra import versions
from infra.components.release import labels
from infra.components.volumes import Find
from infra.settings import Settings

MARK: Final = "effectively-once/made-by"
"""Annotation of namespaces that this program made; one that was there before us never gets it (docs/adr/0060)."""
MAKER: Final = "pulumi"
ENFORCE: Final = "pod-security.kubernetes.io/enforce"
LEVEL: Final = "restricted"
"""Every pod of every chart, and all that Spark makes of them, is within it; so no namespace needs less."""


@dataclass(frozen=True)
class NamespacesOutputs:
    """Names."""

    platform: str
    operator: str
    pipelines: str


def names(settings: Settings) -> tuple[str, ...]:
    """Return the namespaces that a deployment needs."""
    operator = () if settings.spark_operator.installed else (settings.operator_namespace,)
    return (settings.namespace, *operator, settings.pipelines_namespace)


def pod_security() -> dict[str, str]:
    """Return the labels by which Kubernetes refuses pods with any privilege.

    The rules are those of the version that our pods were tried on: a cluster that is upgraded may have stricter ones,
    and the next pod of a running pipeline would be refused by them. `warn` tells of a Deployment when it is applied;
    `enforce` looks at pods alone.
    """
    rules = f"v{versions.KUBERNETES.rpartition('.')[0]}"
    return {ENFORCE: LEVEL, f"{ENFORCE}-version": rules, ENFORCE.replace("enforce", "warn"): LEVEL}


def find_brought(settings: Settings, find: Find) -> dict[str, str | None]:
    """Return those that are there and not of our making, with the level of pod security that they enforce.

    They stay when everything else is destroyed.
    """
    found = {}
    for name in names(settings):
        there = find(f"/api/v1/namespaces/{name}")
        if there is not None and (there["metadata"].get("annotations") or {}).get(MARK) != MAKER:
            found[name] = (there["metadata"].get("labels") or {}).get(ENFORCE)
    return found


def open_doors(brought: Mapping[str, str | None]) -> list[str]:
    """Return a line for each that lets pods in which ours need not be: its labels are its owner's to set."""
    return [
        f"namespace {name} was there before and enforces {level or 'no pod security'}; pods of ours are within "
        f"{LEVEL}: kubectl label namespace {name} {ENFORCE}={LEVEL}"
        for name, level in brought.items()
        if level != LEVEL
    ]


class Namespaces(pulumi.ComponentResource):
    """Three namespaces, or two where the operator is installed already.

    The platform's stays when volumes are kept, because it holds their claims. Those that were `brought` are used as
    they are, and stay whatever else goes.
    """

    def __init__(self, settings: Settings, brought: Mapping[str, str | None], opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:Namespaces", "namespaces", None, opts)
        self.outputs = NamespacesOutputs(settings.namespace, settings.operator_namespace, settings.pipelines_namespace)
        for name in names(settings):
            theirs = name in brought
            volumes = name == settings.namespace and not settings.storage.delete_volumes
            own = {} if theirs else pod_security()
            marks = {} if theirs else {"annotations": {MARK: MAKER}}
            Namespace(
                name,
                metadata={"name": name, "labels": labels("namespace") | own, **marks},
                opts=pulumi.ResourceOptions(parent=self, retain_on_delete=theirs or volumes),
            )
        self.register_outputs({})
