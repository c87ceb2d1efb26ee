"""The stack's output `platform`: what was deployed where, and why it cannot be read."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from infra.cluster.api import ClusterError


class AccessError(ClusterError):
    """The stack cannot be read; the message says why and what to do."""


class NoStackError(AccessError):
    """Nothing has been deployed yet, or not to its end."""


class PassphraseError(AccessError):
    """The passphrase of Pulumi's state is lost or another one."""


class Part(BaseModel):
    """Part of the stack's output. A newer program may say more; that is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Namespaces(Part):
    """Names of our namespaces; `operator` is None where an installed operator is used."""

    platform: str
    operator: str | None = None
    pipelines: str

    @property
    def ours(self) -> tuple[str, ...]:
        """Each once, in the order in which they matter."""
        return tuple(dict.fromkeys(name for name in (self.platform, self.operator, self.pipelines) if name))


class Kafka(Part):
    """host:port[,host:port] inside the cluster, and outside where there is such access.

    Attributes:
        certificates: Secret of the platform's namespace with `ca.crt`, where clients speak TLS and log in.
        secret: of the pipelines' namespace, with the login of who runs campaigns; None: nobody has one.
    """

    bootstrap: str
    external_bootstrap: str | None = None
    certificates: str | None = None
    secret: str | None = None


class Store(Part):
    """A store with credentials: URL inside and outside the cluster, the Secret that opens it and its namespace.

    Attributes:
        certificates: Secret of the platform's namespace with `ca.crt`, where the store speaks TLS by our authority.
    """

    endpoint: str
    external_endpoint: str | None = None
    external_console: str | None = None
    secret: str | None = None
    secret_namespace: str | None = None
    certificates: str | None = None


class HistoryServer(Part):
    """URL outside the cluster, where there is such access."""

    external_url: str | None = None


class Executors(Part):
    """How many a pipeline is meant to have."""

    count: int = 2


class Pipeline(Part):
    """The values of a pipeline's chart, as far as an operator's commands need them."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    name: str
    module: str = ""
    suspend: bool = False
    executors: Executors = Executors()
    settings: dict[str, Any] = Field(default_factory=dict)


class Platform(Part):
    """The stack output `platform`: what was deployed where. It holds no secret.

    Attributes:
        monitoring: Prometheus and Alertmanager of ours are there.

    """

    profile: str
    namespaces: Namespaces
    kafka: Kafka
    object_store: Store
    result_store: Store | None = None
    history_server: HistoryServer | None = None
    monitoring: bool = False
    pipelines: dict[str, Pipeline] = Field(default_factory=dict)
    images: dict[str, str] = Field(default_factory=dict)


def parse_platform(text: str) -> Platform:
    """Read the output of `pulumi stack output --json`.

    Raises:
        NoStackError: there is no `platform` in it: the last update did not come to its end.
        AccessError: it is not what our program writes; the field is named.
    """
    try:
        found = json.loads(text or "{}")
        platform = found.get("platform")
    except (ValueError, AttributeError) as error:
        raise AccessError(f"`pulumi stack output --json` gave no JSON object: {text[:80]!r}") from error
    if platform is None:
        raise NoStackError("the stack has no output `platform`: its last update did not finish; run `make up` again")
    try:
        return Platform.model_validate(platform)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, ("platform", *first["loc"])))
        raise AccessError(
            f"stack output {where}: {first['msg']}; another version wrote it: run `make up` with this one"
        ) from error


def assume_platform(prefix: str = "effectively-once") -> Platform:
    """What a stack with the default names would say, before it has said anything."""
    return Platform(
        profile="unknown",
        namespaces=Namespaces(platform=prefix, operator=f"{prefix}-operator", pipelines=f"{prefix}-pipelines"),
        kafka=Kafka(bootstrap=f"kafka.{prefix}.svc:9092"),
        object_store=Store(endpoint=f"http://minio.{prefix}.svc:9000"),
        result_store=Store(endpoint=f"postgres.{prefix}.svc:5432"),
        history_server=HistoryServer(),
    )
