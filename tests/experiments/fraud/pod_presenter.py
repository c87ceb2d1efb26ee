"""The presenter of fraud detection as a pod: the pipeline's own image, with the credentials of its result store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from effectively_once.kafka_client import CERTIFICATES as CA
from effectively_once.sinks.database import AUTHORITIES, SSL_MODE
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.rendering import Object
from tests.harness.adapters.service_pod import PORT, ServicePod, pod

MODULE = "effectively_once_jobs.fraud.presenter"
AUTHORITY = "/var/run/effectively-once/result-store"


@dataclass
class PodPresenter:
    """One presenter of a result store.

    Attributes:
        cluster: the namespace of the pipeline.
        name: of its pod.
        run: label of everything that belongs to the run, which deletes it.
        image: of the pipeline, which the presenter is in.
        database: address of the result store, as pods reach it.
        secret: name of the Secret with its credentials.
        verified: the Secret has the authority of the store's certificate too (`ca.crt`), and no other is believed.
    """

    cluster: Cluster
    name: str
    run: str
    image: str
    database: str
    secret: str
    verified: bool
    service: ServicePod = field(init=False)

    def __post_init__(self) -> None:
        self.service = ServicePod(self.cluster, self.name, self.run)

    def start(self) -> None:
        """Start it, and return when it answers what the store holds. Raises ClusterTimeoutError."""
        made = presenter_pod(
            self.name, self.service.labels, self.image, self.database, self.secret, verified=self.verified
        )
        self.service.start([made], lambda: self.ask("nobody")[0] == 404)

    def ask(self, id_: str) -> tuple[int, Any]:
        """Status and document of its answer about a transaction. Raises ClusterTimeoutError: there is none."""
        status, content = self.service.ask(f"/decisions/{id_}")
        return status, orjson.loads(content)

    def stop(self) -> None:
        """End it, with what led to it. Safe to repeat."""
        self.service.stop()


def presenter_pod(
    name: str, labels: dict[str, str], image: str, database: str, secret: str, *, verified: bool
) -> Object:
    """The pod: it may read the result store, and nothing else."""
    words = {"host": "0.0.0.0", "port": PORT, "database": database}  # noqa: S104
    tls = {SSL_MODE: "verify-full", AUTHORITIES: f"{AUTHORITY}/{CA}"} if verified else {}
    mounts = [{"name": "authority", "mountPath": AUTHORITY, "readOnly": True}] if verified else []
    volume = {"name": "authority", "secret": {"secretName": secret, "items": [{"key": CA, "path": CA}]}}
    return pod(
        name,
        labels,
        {
            "image": image,
            "args": ["-m", MODULE, *(word for option, value in words.items() for word in (f"--{option}", str(value)))],
            "env": [{"name": one, "value": value} for one, value in {"PYTHONDONTWRITEBYTECODE": "1", **tls}.items()],
            "envFrom": [{"secretRef": {"name": secret}}],
            "volumeMounts": mounts,
        },
        [volume] if verified else [],
    )
