"""What watches a deployment."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infra.settings.field_types import Label, Quantity
from infra.settings.pipeline import Outside
from infra.settings.resources import Resources
from infra.settings.section import Section


class Monitoring(Section):
    """Prometheus and Alertmanager of ours, or objects for a Prometheus operator that the cluster has.

    Attributes:
        enabled: they are there; MinIO and our operator serve metrics then.
        operator_objects: PodMonitors and a PrometheusRule in the place of ours; the cluster has their CRDs.
        alertmanager_secret: Secret of the platform's namespace with `alertmanager.yaml`; None: alerts are sent nowhere.
        receivers: where Alertmanager connects to.
        clients: namespaces whose pods may ask both, such as Grafana's; with operator_objects that of its Prometheus.
        runbooks: address before `docs/how-to/alerts.md` in what alerts link to.
    """

    enabled: bool = False
    operator_objects: bool = False
    alertmanager_secret: Label | None = None
    receivers: tuple[Outside, ...] = ()
    clients: tuple[Label, ...] = ()
    runbooks: Annotated[str, Field(pattern=r"^(https?://\S+/)?$")] = ""
    retention_days: Annotated[int, Field(ge=1, le=3650)] = 15
    storage_size: Quantity = "10Gi"
    resources: Resources | None = None
