"""The Spark operator with its CRDs; nothing where one is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pulumi
from pulumi_kubernetes.yaml.v2 import ConfigGroup

from infra.components import network
from infra.components.release import common, drop_none, release, resources
from infra.settings import Settings, SettingsError
from infra.values.network import OperatorPolicies
from infra.values.spark_operator import SparkOperatorValues

CRDS_VARIABLE: Final = "EFFECTIVELY_ONCE_CRDS"
METRICS_PORT: Final = 8080


def values(settings: Settings) -> SparkOperatorValues | None:
    """Return the chart's values, None where an operator is installed."""
    operator = settings.spark_operator
    if operator.installed:
        return None
    return SparkOperatorValues(
        **common(settings, settings.images.spark_operator),
        namespaces=(settings.pipelines_namespace, *operator.other_namespaces),
        replicas=operator.replicas,
        leader_election=operator.replicas > 1,
        metrics_port=METRICS_PORT if settings.monitoring.enabled else 0,
        network_policies=OperatorPolicies(
            **network.names(settings), api_server=network.api_server(settings), watchers=network.watchers(settings)
        ),
        **drop_none(resources=resources(operator.resources)),
    )


def crd_files(settings: Settings, environment: Mapping[str, str]) -> list[str]:
    """Return the files of the CRDs that are to be applied, in order.

    Raises SettingsError when they are wanted and EFFECTIVELY_ONCE_CRDS names no folder that holds any.
    """
    if settings.spark_operator.installed:
        return []
    named = environment.get(CRDS_VARIABLE, "")
    found = sorted(str(path) for path in Path(named).glob("*.yaml")) if named else []
    if not found:
        raise SettingsError(
            [
                f"spark_operator.installed: False needs the operator's CRDs, and {CRDS_VARIABLE} names no folder with "
                f"any, got {named!r}; `eval $(make env)` sets it"
            ]
        )
    return found


def _keep(resource: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult:
    """Keep a CRD when the stack is destroyed: with it the objects of everybody who uses it would go.

    Its field manager stays Pulumi's: one whose name changes gives a CRD that is there back in parts, which the API
    server refuses. A CRD of other content, whoever left it, is refused as a conflict and not taken over.
    """
    kept = pulumi.ResourceOptions(retain_on_delete=True)
    return pulumi.ResourceTransformResult(resource.props, pulumi.ResourceOptions.merge(resource.opts, kept))


class SparkOperator(pulumi.ComponentResource):
    """CRDs, applied server-side and never deleted, then an operator that is ready."""

    def __init__(
        self, settings: Settings, crds: list[str], after: list[pulumi.Resource], opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("effectively-once:platform:SparkOperator", "spark-operator", None, opts)
        if (chart := values(settings)) is not None:
            kept = pulumi.ResourceOptions(parent=self, transforms=[_keep])
            definitions = ConfigGroup("spark-operator-crds", files=crds, opts=kept)
            release(
                "spark-operator",
                "spark-operator",
                settings.operator_namespace,
                chart,
                parent=self,
                after=[*after, definitions],
            )
        self.register_outputs({})
