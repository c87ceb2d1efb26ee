"""The platform's PostgreSQL as a run on the cluster uses it: its pipeline from a pod, the harness from outside."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psycopg
from kubernetes import client, config

from effectively_once.sinks.database import PASSWORD, USER, DatabaseAddress
from infra.cluster.platform import AccessError, Platform
from infra.embedded.ports import HOST
from tests.harness.adapters.cluster import Cluster, label_of
from tests.harness.adapters.rendering import RUN_LABEL, Object
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.tunnel import Far, Tunnel

PORT, CONNECT_S = 5432, 10
KEYS = {USER: "username", PASSWORD: "password"}
"""What the pipeline's environment calls it, and the platform's Secret."""


class NoDatabaseError(AccessError):
    """The result store cannot be used; the message says why."""


@dataclass
class PodDatabase:
    """A database in a pod of ours.

    Attributes:
        server: its pods.
        inside: `postgresql://host:port/database`, as a pod reaches it.
        credentials: PGUSER and PGPASSWORD.
        core: makes a client of the cluster's API (kubernetes.client.CoreV1Api).
    """

    server: ServerPods
    inside: str
    credentials: Mapping[str, str] = field(repr=False)
    core: Callable[[], Any] = field(repr=False)
    _tunnel: Tunnel = field(init=False)
    _open: ExitStack = field(default_factory=ExitStack, init=False)

    def __post_init__(self) -> None:
        """Refuse an address that a pipeline would refuse. Raises SettingsError."""
        DatabaseAddress(self.inside)
        self._tunnel = Tunnel(self._dial)

    @classmethod
    def of(cls, server: ServerPods, told: Platform, kubeconfig: Path, context: str | None) -> Self:
        """What a stack's output tells of. Raises NoDatabaseError, ApiError, UnreachableError."""
        store = told.result_store
        if store is None or store.secret is None:
            raise NoDatabaseError("the stack's output tells of no result store with a Secret: run `make up` again")
        namespace = store.secret_namespace or told.namespaces.platform
        found = server.cluster.reader.get(f"/api/v1/namespaces/{namespace}/secrets/{store.secret}")
        given = found.get("data") or {}
        if lacking := sorted(set(KEYS.values()) - given.keys()):
            raise NoDatabaseError(f"Secret {namespace}/{store.secret} lacks {', '.join(lacking)}")
        credentials = {name: base64.b64decode(given[key]).decode() for name, key in KEYS.items()}
        configuration: Any = client.Configuration()
        load: Any = config.load_kube_config
        load(str(kubeconfig), context=context, persist_config=False, client_configuration=configuration)
        return cls(server, store.endpoint, credentials, lambda: client.CoreV1Api(client.ApiClient(configuration)))

    @property
    def url(self) -> str:
        """Address without credentials, as this machine reaches it while it is open."""
        return f"postgresql://{HOST}:{self._tunnel.port}/{self._name}"

    def connect(self) -> psycopg.Connection:
        """Open a connection; every statement commits by itself. Raises psycopg.Error."""
        return psycopg.connect(
            host=HOST,
            port=self._tunnel.port,
            user=self.credentials[USER],
            password=self.credentials[PASSWORD],
            dbname=self._name,
            connect_timeout=CONNECT_S,
            autocommit=True,
        )

    def open(self, pipelines: Cluster, run: str) -> None:
        """Lend it to a run: a way to it from here, the environment of this process, and a Secret for its pods.

        Raises:
            NoDatabaseError: it does not answer.
        """
        self._open.callback(self._tunnel.stop)
        self._tunnel.start()
        os.environ.update(self.credentials)
        # What a run that was killed left is deleted by the next one, as everything of a run is.
        self._revoke(pipelines.namespace, RUN_LABEL)
        self._open.callback(self._revoke, pipelines.namespace, label_of(run))
        pipelines.apply([secret_of(run, self.credentials)])
        try:
            self.connect().close()
        except psycopg.Error as error:
            raise NoDatabaseError(f"the result store does not answer: {error} {self._tunnel.trouble}") from error

    def close(self) -> None:
        """Take all of it back. Safe to repeat."""
        self._open.close()

    @property
    def _name(self) -> str:
        return str(DatabaseAddress(self.inside).parts["dbname"])

    def _dial(self) -> Far:
        pods = self.server.ready()
        if not pods:
            raise ConnectionError(f"no pod of the {self.server.what} is ready")
        return self.server.cluster.dial(pods[0].name, PORT)

    def _revoke(self, namespace: str, selector: str) -> None:
        self.core().delete_collection_namespaced_secret(namespace, label_selector=selector)


def secret_of(run: str, credentials: Mapping[str, str]) -> Object:
    """The Secret that a run's pods read; its name says whose it is."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": secret_name(run), "labels": {RUN_LABEL: run}},
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in credentials.items()},
    }


def secret_name(run: str) -> str:
    """Of the Secret of a run."""
    return f"{run}-result-store"
