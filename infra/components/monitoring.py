"""Prometheus and Alertmanager, or objects for a Prometheus operator; nothing unless it is asked for."""

from __future__ import annotations

from typing import Any

import pulumi

from infra.components import clients, kafka, network, object_store
from infra.components.release import drop_none, release, resources, server, storage
from infra.settings import Settings
from infra.values.monitoring import Alertmanager, MonitoringValues
from infra.values.network import Pods, WatchPolicies, driver_metrics, kafka_metrics, operator_metrics
from infra.values.network import object_store as store_metrics


def values(settings: Settings) -> MonitoringValues | None:
    """Return the chart's values, None where nothing watches."""
    wanted = settings.monitoring
    if not wanted.enabled:
        return None
    operator = None if settings.spark_operator.installed else settings.operator_namespace
    ours = settings.object_store.external is None
    brokers = kafka.values(settings)
    policies: dict[str, Any] = {
        "clients": tuple(Pods(namespace=name) for name in wanted.clients),
        "api_server": network.api_server(settings),
        "drivers": driver_metrics(settings.pipelines_namespace),
        "operator": None if operator is None else operator_metrics(operator),
        "kafka": () if brokers is None else kafka_metrics(settings.namespace, *brokers.components),
        "object_store": store_metrics(settings.namespace) if ours else None,
        "receivers": tuple(map(network.outside, wanted.receivers)),
    }
    return MonitoringValues(
        # Objects for an operator need none.
        **server(settings, settings.images.monitoring or "none"),
        pipelines=settings.pipelines_namespace,
        operator=operator,
        kafka=() if brokers is None else brokers.metrics,
        object_store=object_store.outputs(settings).endpoint.partition("//")[2] if ours else None,
        object_store_certificates=clients.object_store(settings).certificates if ours else None,
        server=not wanted.operator_objects,
        monitors=wanted.operator_objects,
        runbooks=wanted.runbooks,
        retention_days=wanted.retention_days,
        storage=storage(settings, wanted.storage_size),
        alertmanager=Alertmanager(config_secret=wanted.alertmanager_secret),
        network_policies=WatchPolicies(**network.names(settings), **policies),
        **drop_none(resources=resources(wanted.resources)),
    )


class Monitoring(pulumi.ComponentResource):
    """A Prometheus that answers, in the platform's namespace."""

    def __init__(self, settings: Settings, after: list[pulumi.Resource], opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:Monitoring", "monitoring", None, opts)
        if (chart := values(settings)) is not None:
            release("monitoring", "monitoring", settings.namespace, chart, parent=self, after=after)
        self.register_outputs({})
