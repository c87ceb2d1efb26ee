"""The Spark operator with its CRDs; nothing where one is installed."""

from __future__ import annotations

from typing import Final

import pulumi
from pulumi_kubernetes.yaml.v2 import ConfigGroup

from infra.components import crds, network
from infra.components.release import drop_none, release, resources, server
from infra.settings import Settings
from infra.values.network import OperatorPolicies
from infra.values.spark_operator import SparkOperatorValues

METRICS_PORT: Final = 8080


def values(settings: Settings) -> SparkOperatorValues | None:
    """Return the chart's values, None where an operator is installed."""
    operator = settings.spark_operator
    if operator.installed:
        return None
    return SparkOperatorValues(
        **server(settings, settings.images.spark_operator),
        namespaces=(settings.pipelines_namespace, *operator.other_namespaces),
        replicas=operator.replicas,
        leader_election=operator.replicas > 1,
        metrics_port=METRICS_PORT if settings.monitoring.enabled else 0,
        network_policies=OperatorPolicies(
            **network.names(settings), api_server=network.api_server(settings), watchers=network.watchers(settings)
        ),
        **drop_none(resources=resources(operator.resources)),
    )


def _keep(resource: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult:
    """Keep a CRD when the stack is destroyed: with it the objects of everybody who uses it would go.

    Its field manager stays Pulumi's: one whose name changes gives a CRD that is there back in parts, which the API
    server refuses. A CRD of other content, whoever left it, is refused as a conflict and not taken over.
    """
    kept = pulumi.ResourceOptions(retain_on_delete=True)
    return pulumi.ResourceTransformResult(resource.props, pulumi.ResourceOptions.merge(resource.opts, kept))


class SparkOperator(pulumi.ComponentResource):
    """CRDs, applied server-side and never deleted, then an operator that is ready."""

    def __init__(self, settings: Settings, after: list[pulumi.Resource], opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:SparkOperator", "spark-operator", None, opts)
        if (chart := values(settings)) is not None:
            kept = pulumi.ResourceOptions(parent=self, transforms=[_keep])
            definitions = ConfigGroup("spark-operator-crds", files=crds.list_files(settings), opts=kept)
            release(
                "spark-operator",
                "spark-operator",
                settings.operator_namespace,
                chart,
                parent=self,
                after=[*after, definitions],
            )
        self.register_outputs({})
