"""The Kafka broker, or the address of one that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap

from infra.components import kafka_security, network
from infra.components.release import FORCE, data_server, drop_none, exposure, labels, release, resources, storage
from infra.settings import Settings
from infra.values.kafka import External, KafkaValues
from infra.values.network import METRICS_PORT, Egress, KafkaPolicies, anywhere, broker

FORMED: Final = "kafka-formed"
"""ConfigMap that tells a controller that its quorum has been formed: an empty disk is a lost one from then on."""


@dataclass(frozen=True)
class KafkaOutputs:
    """host:port[,host:port] inside and outside the cluster.

    Attributes:
        certificates: Secret of the platform's namespace with whom to believe; None where connections are plain.
        secret: in the pipelines' namespace, with the login of who runs campaigns.
    """

    bootstrap: str
    external_bootstrap: str | None
    certificates: str | None = None
    secret: str | None = None


def values(settings: Settings) -> KafkaValues | None:
    """Return the chart's values, None where an external broker is used."""
    kafka = settings.kafka
    if kafka.external is not None:
        return None
    return KafkaValues(
        **data_server(settings, settings.images.kafka),
        nodes=kafka.nodes,
        controllers=kafka.controllers,
        spread=settings.scheduling.spread,
        external=External(**exposure(settings, "kafka")),
        security=kafka_security.values(settings),
        metrics_port=METRICS_PORT if settings.monitoring.enabled else 0,
        storage=storage(settings, kafka.storage_size),
        network_policies=KafkaPolicies(
            **network.names(settings),
            clients=network.clients(settings, kafka.clients),
            watchers=network.watchers(settings),
        ),
        **drop_none(
            session_timeout_ms=kafka.session_timeout_ms, heap_mib=kafka.heap_mib, resources=resources(kafka.resources)
        ),
    )


def outputs(settings: Settings) -> KafkaOutputs:
    """Return where the broker is; known before it is made."""
    chart = values(settings)
    if chart is None:
        bootstrap = str(settings.kafka.external)
        # A broker that is there is taken to be reachable under its name from everywhere.
        return KafkaOutputs(bootstrap, bootstrap)
    host, port = chart.bootstrap.split(":")
    inside = f"{host}.{settings.namespace}.svc:{port}"
    secret = kafka_security.login_of_campaigns(settings)
    certificates = None if chart.security is None else chart.security.tls_secret
    return KafkaOutputs(inside, chart.external_bootstrap, certificates, secret)


def egress(settings: Settings) -> Egress:
    """Return where pods connect to for it."""
    external = settings.kafka.external
    if external is None:
        return broker(settings.namespace)
    # Policies know no host names: its ports, wherever they are.
    return anywhere(*sorted({int(one.rpartition(":")[2]) for one in external.split(",")}))


class Kafka(pulumi.ComponentResource):
    """Brokers and controllers that are ready; nothing where an external broker is used."""

    def __init__(self, settings: Settings, after: list[pulumi.Resource], opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:Kafka", "kafka", None, opts)
        self.outputs = outputs(settings)
        if (chart := values(settings)) is not None:
            made = release("kafka", "kafka", settings.namespace, chart, parent=self, after=after)
            self._mark_formed(settings, chart.cluster_id, made)
        self.register_outputs({})

    def _mark_formed(self, settings: Settings, cluster_id: str, made: pulumi.Resource) -> None:
        """Say so once every node is ready, hence formatted; it stays as long as the volumes do."""
        ConfigMap(
            FORMED,
            metadata={
                "name": FORMED,
                "namespace": settings.namespace,
                "labels": labels("kafka"),
                "annotations": {FORCE: "true"},
            },
            data={"formed": cluster_id},
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=[made], retain_on_delete=not settings.storage.delete_volumes
            ),
        )
