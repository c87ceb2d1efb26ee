"""The object store, or the address of one that is there."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import pulumi

from infra.components import network, object_security
from infra.components.clients import OBJECT_STORE_CA
from infra.components.credentials import OBJECT_STORE_ROOT
from infra.components.release import data_server, drop_none, exposure, release, resources, storage
from infra.settings import Settings
from infra.values.exposure import Exposure
from infra.values.minio import External, MinioValues
from infra.values.network import Egress, Pods, StorePolicies, anywhere
from infra.values.network import object_store as ours

PORT = 9000


@dataclass(frozen=True)
class ObjectStoreOutputs:
    """URLs inside and outside the cluster, and the Secret (of the platform's namespace) with whom to believe."""

    endpoint: str
    external_endpoint: str | None
    external_console: str | None
    certificates: str | None = None


def values(settings: Settings) -> MinioValues | None:
    """Return the chart's values, None where an external store is used."""
    store = settings.object_store
    if store.external is not None:
        return None
    external = External(
        api=Exposure(**exposure(settings, "object_store")), console=Exposure(**exposure(settings, "console"))
    )
    history = Pods(namespace=settings.namespace, labels={"app.kubernetes.io/name": "history-server"})
    readers = (history,) if settings.history_server.enabled else ()
    clients = network.clients(settings, store.clients, *readers)
    clients += tuple(one for one in network.watchers(settings) if one not in clients)
    return MinioValues(
        **data_server(settings, settings.images.minio),
        nodes=store.nodes,
        spread=settings.scheduling.spread,
        credentials_secret=OBJECT_STORE_ROOT,
        security=object_security.values(settings),
        metrics=settings.monitoring.enabled,
        external=external,
        storage=storage(settings, store.storage_size),
        network_policies=StorePolicies(**network.names(settings), clients=clients),
        **drop_none(resources=resources(store.resources)),
    )


def outputs(settings: Settings) -> ObjectStoreOutputs:
    """Return where the store is; known before it is made."""
    chart = values(settings)
    if chart is None:
        there = str(settings.object_store.external and settings.object_store.external.endpoint)
        return ObjectStoreOutputs(there, there, None)
    encrypted = chart.security is not None
    inside = f"{'https' if encrypted else 'http'}://minio.{settings.namespace}.svc:{PORT}"
    api, console = (way.url_of(encrypted=encrypted) for way in (chart.external.api, chart.external.console))
    return ObjectStoreOutputs(inside, api, console, OBJECT_STORE_CA if encrypted else None)


def egress(settings: Settings) -> Egress:
    """Return where pods connect to for it."""
    external = settings.object_store.external
    if external is None:
        return ours(settings.namespace)
    identity = external.web_identity
    used = [external.endpoint, *([identity.issuer or "https://sts"] if identity else [])]
    return anywhere(*sorted({_port(url) for url in used}))


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or {"http": 80, "https": 443}[parts.scheme]


class ObjectStore(pulumi.ComponentResource):
    """A store that answers; nothing where an external one is used. Buckets are made by the pipelines' charts."""

    def __init__(self, settings: Settings, after: list[pulumi.Resource], opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:ObjectStore", "object-store", None, opts)
        self.outputs = outputs(settings)
        if (chart := values(settings)) is not None:
            release("minio", "minio", settings.namespace, chart, parent=self, after=after)
        self.register_outputs({})
