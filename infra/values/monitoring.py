"""Values of the chart `monitoring`: Prometheus with the rules, Alertmanager, or objects for a Prometheus operator."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infra.values.common import KubernetesName, Part, Resources, ServerValues, Storage
from infra.values.network import WatchPolicies

Address = Annotated[str, Field(pattern=r"^[a-z0-9.-]+:\d+$")]
"""host:port"""


class Alertmanager(Part):
    """Who sends alerts.

    Attributes:
        config_secret: Secret of the release's namespace with `alertmanager.yaml`; None: it sends none.
    """

    config_secret: KubernetesName | None = None
    resources: Resources = Resources(cpu_request="20m", memory_request="32Mi", memory_limit="128Mi")


class MonitoringValues(ServerValues):
    """What watches. Silences are in Alertmanager's memory: a new pod has none.

    Attributes:
        pipelines: namespace of the drivers.
        operator: namespace of the Spark operator, whose chart serves metrics; None: it is not asked.
        kafka: host:port of every node of a Kafka that serves metrics; none: it is not asked.
        object_store: host:port of a MinIO that serves metrics; None: none is asked.
        object_store_certificates: Secret of the release's namespace with `ca.crt`, where it speaks TLS.
        server: Prometheus and Alertmanager are there.
        monitors: so are PodMonitors and a PrometheusRule.
        runbooks: address before `docs/how-to/alerts.md`.
        retention_days: of Prometheus.
        storage: of Prometheus.
        resources: of Prometheus.
        network_policies: where its pods may connect to.
    """

    pipelines: KubernetesName
    operator: KubernetesName | None = None
    kafka: tuple[Address, ...] = ()
    object_store: Address | None = None
    object_store_certificates: KubernetesName | None = None
    server: bool = True
    monitors: bool = False
    runbooks: Annotated[str, Field(pattern=r"^(https?://\S+/)?$")] = ""
    retention_days: Annotated[int, Field(ge=1, le=3650)] = 15
    storage: Storage = Storage(size="10Gi")
    resources: Resources = Resources(cpu_request="100m", memory_request="256Mi", memory_limit="1Gi")
    alertmanager: Alertmanager = Alertmanager()
    network_policies: WatchPolicies = WatchPolicies()
