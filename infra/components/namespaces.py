"""The namespaces of platform, operator and pipelines."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

import pulumi
from pulumi_kubernetes.core.v1 import Namespace

from infra.components.release import labels
from infra.settings import Settings

MARK: Final = "effectively-once/made-by"
"""Annotation of namespaces that this program made; one that was there before us never gets it (docs/adr/0060)."""
MAKER: Final = "pulumi"


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


def brought(settings: Settings, find: Callable[[str], dict[str, Any] | None]) -> frozenset[str]:
    """Return those that are there and not of our making: they stay when everything else is destroyed.

    `find` returns an object of the cluster by path, None only when it is not there.
    """
    found = []
    for name in names(settings):
        there = find(f"/api/v1/namespaces/{name}")
        if there is not None and (there["metadata"].get("annotations") or {}).get(MARK) != MAKER:
            found.append(name)
    return frozenset(found)


class Namespaces(pulumi.ComponentResource):
    """Three namespaces, or two where the operator is installed already.

    The platform's stays when volumes are kept, because it holds their claims. Those that were `brought` are used, and
    stay whatever else goes.
    """

    def __init__(self, settings: Settings, brought: Collection[str], opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:Namespaces", "namespaces", None, opts)
        self.outputs = NamespacesOutputs(settings.namespace, settings.operator_namespace, settings.pipelines_namespace)
        for name in names(settings):
            theirs = name in brought
            volumes = name == settings.namespace and not settings.storage.delete_volumes
            marks = {} if theirs else {"annotations": {MARK: MAKER}}
            Namespace(
                name,
                metadata={"name": name, "labels": labels("namespace"), **marks},
                opts=pulumi.ResourceOptions(parent=self, retain_on_delete=theirs or volumes),
            )
        self.register_outputs({})
