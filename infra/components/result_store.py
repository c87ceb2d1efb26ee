"""PostgreSQL for pipelines that publish into tables, or the address of one that is there."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.components import network, result_security
from infra.components.credentials import RESULT_STORE
from infra.components.release import data_server, drop_none, release, resources, storage
from infra.settings import Settings
from infra.values.network import Egress, StorePolicies, anywhere
from infra.values.network import result_store as ours
from infra.values.postgres import PostgresValues

PORT = 5432


@dataclass(frozen=True)
class ResultStoreOutputs:
    """URL without user and password, and the Secret (name, namespace) with the keys username and password.

    `certificates` is the Secret of the same namespace with whom to believe, where the server speaks TLS alone.
    """

    endpoint: str
    secret: str
    secret_namespace: str
    certificates: str | None = None


def values(settings: Settings) -> PostgresValues | None:
    """Return the chart's values, None where there is no result store or an external one."""
    store = settings.result_store
    if not store.enabled or store.external is not None:
        return None
    return PostgresValues(
        **data_server(settings, settings.images.postgres),
        credentials_secret=RESULT_STORE,
        database=store.database,
        security=result_security.values(settings),
        storage=storage(settings, store.storage_size),
        network_policies=StorePolicies(**network.names(settings), clients=network.clients(settings, store.clients)),
        **drop_none(resources=resources(store.resources)),
    )


def outputs(settings: Settings) -> ResultStoreOutputs | None:
    """Return where the result store is, None without one; known before it is made."""
    store = settings.result_store
    if not store.enabled:
        return None
    if store.external is None:
        endpoint = f"postgresql://postgres.{settings.namespace}.svc:{PORT}/{store.database}"
        security = result_security.values(settings)
        certificates = None if security is None else security.tls_secret
        return ResultStoreOutputs(endpoint, RESULT_STORE, settings.namespace, certificates)
    namespace, secret = store.external.credentials_secret.split("/")
    endpoint = f"postgresql://{store.external.host}:{store.external.port}/{store.database}"
    return ResultStoreOutputs(endpoint, secret, namespace)


def egress(settings: Settings) -> Egress:
    """Return where pods connect to for it; those of a pipeline without tables do not."""
    external = settings.result_store.external
    return ours(settings.namespace) if external is None else anywhere(external.port)


class ResultStore(pulumi.ComponentResource):
    """A database that takes connections; nothing where there is none of ours."""

    def __init__(self, settings: Settings, after: list[pulumi.Resource], opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:ResultStore", "result-store", None, opts)
        self.outputs = outputs(settings)
        if (chart := values(settings)) is not None:
            release("postgres", "postgres", settings.namespace, chart, parent=self, after=after)
        self.register_outputs({})
