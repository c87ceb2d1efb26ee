"""The platform's PostgreSQL as a run on the cluster uses it: its pipeline from a pod, the harness from outside."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

import psycopg

from effectively_once.kafka_client import CERTIFICATES as CA
from effectively_once.sinks.database import AUTHORITIES, PASSWORD, SSL_MODE, USER, DatabaseAddress
from infra.cluster.platform import AccessError, Platform
from infra.embedded.ports import HOST
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.pod_login import secret_of
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.tunnel import Far, Tunnel

PORT, CONNECT_S = 5432, 10
KEYS = {USER: "username", PASSWORD: "password"}
"""What the pipeline's environment calls it, and the platform's Secret."""
_TLS: Final = {"sslmode": SSL_MODE, "sslrootcert": AUTHORITIES}


class NoDatabaseError(AccessError):
    """The result store cannot be used; the message says why."""


@dataclass
class PodDatabase:
    """A database in a pod of ours.

    Attributes:
        server: its pods.
        inside: `postgresql://host:port/database`, as a pod reaches it.
        credentials: PGUSER and PGPASSWORD.
        authority: of the server's certificate (PEM); None where it takes plain connections.
    """

    server: ServerPods
    inside: str
    credentials: Mapping[str, str] = field(repr=False)
    authority: str | None = field(default=None, repr=False)
    _believed: dict[str, str] = field(default_factory=dict, init=False)
    _tunnel: Tunnel = field(init=False)
    _open: ExitStack = field(default_factory=ExitStack, init=False)

    def __post_init__(self) -> None:
        """Refuse an address that a pipeline would refuse. Raises SettingsError."""
        DatabaseAddress(self.inside)
        self._tunnel = Tunnel(self._dial)

    @classmethod
    def of(cls, server: ServerPods, told: Platform) -> Self:
        """What a stack's output tells of. Raises NoDatabaseError, ApiError, UnreachableError."""
        store = told.result_store
        if store is None or store.secret is None:
            raise NoDatabaseError("the stack's output tells of no result store with a Secret: run `make up` again")
        namespace = store.secret_namespace or told.namespaces.platform
        given = _read(server, namespace, store.secret, KEYS.values())
        credentials = {name: given[key] for name, key in KEYS.items()}
        authority = None
        if store.certificates is not None:
            authority = _read(server, namespace, store.certificates, (CA,))[CA]
        return cls(server, store.endpoint, credentials, authority)

    @property
    def url(self) -> str:
        """Address without credentials, as this machine reaches it while it is open."""
        return f"postgresql://{HOST}:{self._tunnel.port}/{self._name}"

    def connect(self) -> psycopg.Connection:
        """Open a connection; every statement commits by itself. Raises psycopg.Error."""
        tls: dict[str, Any] = {name: self._believed[variable] for name, variable in _TLS.items() if self._believed}
        return psycopg.connect(
            host=HOST,
            port=self._tunnel.port,
            user=self.credentials[USER],
            password=self.credentials[PASSWORD],
            dbname=self._name,
            connect_timeout=CONNECT_S,
            autocommit=True,
            **tls,
        )

    def open(self, pipelines: Cluster, run: str) -> None:
        """Lend it to a run: a way to it from here, the environment of this process, and a Secret for its pods.

        Raises:
            NoDatabaseError: it does not answer.
        """
        self._open.callback(self._tunnel.stop)
        self._tunnel.start()
        if self.authority is not None:
            file = Path(self._open.enter_context(TemporaryDirectory(prefix="effectively-once-login-"))) / CA
            file.write_text(self.authority)
            # The way there begins on this machine, for which the certificate is not.
            self._believed = {SSL_MODE: "verify-ca", AUTHORITIES: str(file)}
        os.environ.update({**self.credentials, **self._believed})
        own = {CA: self.authority} if self.authority is not None else {}
        pipelines.apply([secret_of(secret_name(run), run, {**self.credentials, **own})])
        try:
            self.connect().close()
        except psycopg.Error as error:
            raise NoDatabaseError(f"the result store does not answer: {error} {self._tunnel.trouble}") from error

    def values(self, run: str) -> dict[str, Any]:
        """Values of the chart by which pods of a run find the owner's login, and whom to believe."""
        client = {"mode": "verify-full", "certificates": secret_name(run)}
        tls = {"databaseClient": client} if self.authority is not None else {}
        return {"databaseSecret": secret_name(run), **tls}

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


def _read(server: ServerPods, namespace: str, secret: str, keys: Iterable[str]) -> dict[str, str]:
    found = server.cluster.reader.get(f"/api/v1/namespaces/{namespace}/secrets/{secret}")
    given, wanted = found.get("data") or {}, [*keys]
    if lacking := sorted({*wanted} - given.keys()):
        raise NoDatabaseError(f"Secret {namespace}/{secret} lacks {', '.join(lacking)}")
    return {key: base64.b64decode(given[key]).decode() for key in wanted}


def secret_name(run: str) -> str:
    """Of the Secret of a run."""
    return f"{run}-result-store"
