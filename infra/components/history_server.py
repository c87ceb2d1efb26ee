"""Spark's history server."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.components import clients, network, object_security, object_store
from infra.components.release import common, drop_none, exposure, release, resources
from infra.settings import Settings
from infra.values.exposure import Exposure
from infra.values.history_server import HistoryServerValues
from infra.values.network import HistoryPolicies


@dataclass(frozen=True)
class HistoryServerOutputs:
    """URL outside the cluster."""

    external_url: str | None


def values(settings: Settings) -> HistoryServerValues | None:
    """Return the chart's values; None when it is off, or when no pipeline makes the bucket that it reads."""
    server = settings.history_server
    if not server.enabled or not settings.pipelines:
        return None
    return HistoryServerValues(
        **common(settings, settings.images.spark),
        s3_endpoint=object_store.outputs(settings).endpoint,
        bucket=settings.object_store.bucket,
        folders=_folders(settings),
        credentials_secret=object_security.secret(settings, object_security.HISTORY),
        s3=clients.object_store(settings),
        network_policies=HistoryPolicies(**network.names(settings), object_store=object_store.egress(settings)),
        external=Exposure(**exposure(settings, "history_server")),
        **drop_none(resources=resources(server.resources)),
    )


def _folders(settings: Settings) -> tuple[str, ...]:
    names = (one.identity.replace("_", "-") for one in settings.pipelines.values())
    return tuple(own for name in names if (own := object_security.event_log_folder(settings, name)) is not None)


def outputs(settings: Settings) -> HistoryServerOutputs | None:
    """Return where it is, None without one."""
    chart = values(settings)
    return None if chart is None else HistoryServerOutputs(chart.external.url)


class HistoryServer(pulumi.ComponentResource):
    """A history server that answers, in the platform's namespace."""

    def __init__(self, settings: Settings, after: list[pulumi.Resource], opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:HistoryServer", "history-server", None, opts)
        self.outputs = outputs(settings)
        if (chart := values(settings)) is not None:
            release("history-server", "history-server", settings.namespace, chart, parent=self, after=after)
        self.register_outputs({})
