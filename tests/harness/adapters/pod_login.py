"""What the pods of a run log in with, where servers ask who they are: the logins of who runs campaigns, and of owners.

A deployed pipeline's own logins end at its own names, and a run's pipelines have others.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from infra.cluster.platform import Platform
from infra.embedded.stack import Endpoints
from tests.harness.adapters.rendering import RUN_LABEL, Object


@dataclass(frozen=True)
class PodLogin:
    """Logins of a run's pods.

    Attributes:
        kafka: Secret of the pipelines' namespace; None where the broker takes plain connections.
        keys: of the object store's owner; none where every pipeline has them.
    """

    kafka: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, platform: Platform, endpoints: Endpoints) -> Self:
        """What a stack's output tells of."""
        owners = {ACCESS_KEY: endpoints.s3_access_key, SECRET_KEY: endpoints.s3_secret_key}
        return cls(platform.kafka.secret, owners if platform.object_store.certificates is not None else {})

    def values(self, run: str, deployed: Mapping[str, Any]) -> dict[str, Any]:
        """Values of the chart that differ from a deployed pipeline's."""
        kafka = {"kafkaClient": {**deployed.get("kafkaClient", {}), "secret": self.kafka}} if self.kafka else {}
        return {**kafka, **({"credentialsSecret": secret_name(run)} if self.keys else {})}

    def objects(self, run: str) -> list[Object]:
        """Secrets that they need; they go with the run."""
        return [secret_of(secret_name(run), run, self.keys)] if self.keys else []


def secret_name(run: str) -> str:
    """Of the Secret with a run's keys of the object store."""
    return f"{run}-object-store"


def secret_of(name: str, run: str, data: Mapping[str, str]) -> Object:
    """A Secret that a run's pods read."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": name, "labels": {RUN_LABEL: run}},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
