"""The broker: ours, or one that is there already."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from infra.settings.field_types import Bootstrap, Identity, Label, Quantity, SecretReference, Topic
from infra.settings.resources import Resources
from infra.settings.section import Section


class KafkaSecurity(Section):
    """How an external broker is spoken to; every Secret is `namespace/name`, and is copied to the pipelines.

    Attributes:
        protocol: as Kafka names it: TLS, a login, or both.
        mechanism: of the login.
        credentials_secret: with `username` and `password`, for a login.
        ca_secret: with `ca.crt`, where the broker's certificate is its own; None: those that everybody trusts.
    """

    protocol: Literal["SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "SASL_SSL"
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = "SCRAM-SHA-512"
    credentials_secret: SecretReference | None = None
    ca_secret: SecretReference | None = None

    @property
    def has_login(self) -> bool:
        """Whether the broker asks who it is."""
        return self.protocol.startswith("SASL_")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.ca_secret is not None and not self.protocol.endswith("SSL"):
            raise ValueError(f"protocol {self.protocol} shows no certificate: leave ca_secret out, or name SASL_SSL")
        if self.credentials_secret is not None and not self.has_login:
            raise ValueError("protocol SSL has no login: leave credentials_secret out, or name SASL_SSL")
        return self


class KafkaUser(Section):
    """Whoever is no pipeline and logs in at our broker: a sender, a gateway, a reader.

    Attributes:
        writes: inputs that it sends records to, and statements of how far it is.
        reads: topics that it reads, a pipeline's outputs for one; with a dot at its end all that begin so.
    """

    writes: tuple[Topic, ...] = ()
    reads: tuple[Topic, ...] = ()

    @model_validator(mode="after")
    def _of_use(self) -> Self:
        if not self.writes and not self.reads:
            raise ValueError("a user who neither writes nor reads may do nothing: name topics, or leave the user out")
        return self


class Kafka(Section):
    """The broker; with `external` (host:port[,host:port]) none is made, and the other fields mean nothing.

    Attributes:
        clients: namespaces whose pods may connect to it, besides the pipelines' own.
        users: who logs in besides pipelines, where `security.kafka` is set; their passwords are in Secrets.
        security: of an external one; None: plain text.
    """

    external: Bootstrap | None = None
    nodes: Literal[1, 3] = 1
    controllers: Literal[0, 3] = 0
    session_timeout_ms: Annotated[int, Field(ge=2000, le=60_000)] | None = None
    heap_mib: Annotated[int, Field(ge=192)] | None = None
    storage_size: Quantity = "8Gi"
    resources: Resources | None = None
    clients: tuple[Label, ...] = ()
    users: dict[Identity, KafkaUser] = Field(default_factory=dict)
    security: KafkaSecurity | None = None
