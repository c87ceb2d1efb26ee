"""The namespaces of platform, operator and pipelines."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.core.v1 import Namespace

from infra.components.release import labels
from infra.settings import Settings


@dataclass(frozen=True)
class NamespacesOutputs:
    """Names."""

    platform: str
    operator: str
    pipelines: str


class Namespaces(pulumi.ComponentResource):
    """Three namespaces, or two where the operator is installed already.

    The platform's stays when volumes are kept, because it holds their claims. Namespaces that are there are taken over.
    """

    def __init__(self, settings: Settings, opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:Namespaces", "namespaces", None, opts)
        self.outputs = NamespacesOutputs(settings.namespace, settings.operator_namespace, settings.pipelines_namespace)
        self._make(self.outputs.platform, keep=not settings.storage.delete_volumes)
        if not settings.spark_operator.installed:
            self._make(self.outputs.operator)
        self._make(self.outputs.pipelines)
        self.register_outputs({})

    def _make(self, name: str, *, keep: bool = False) -> None:
        Namespace(
            name,
            metadata={"name": name, "labels": labels("namespace")},
            opts=pulumi.ResourceOptions(parent=self, retain_on_delete=keep),
        )
