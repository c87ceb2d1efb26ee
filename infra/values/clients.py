"""How the pods of a chart speak to broker and stores: what the library and Spark find in their environment."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from infra.values.common import KubernetesName, Part

Region = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}$")]
Endpoint = Annotated[str, Field(pattern=r"^https?://[^/\s]+$")]
REGION = "us-east-1"
"""What a store answers to that has no regions."""


class KafkaClient(Part):
    """A login of Kafka's.

    Attributes:
        protocol: as Kafka names it.
        mechanism: of a login.
        secret: of the release's namespace, with `username`, `password` and `jaas.conf` for a login, and `ca.crt` where
            the broker's certificate is its own.
        version: differs when the Secret's values do: pods are started anew.
    """

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] | None = None
    secret: KubernetesName | None = None
    version: str | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.protocol.startswith("SASL_") and (self.mechanism is None or self.secret is None):
            raise ValueError(f"protocol {self.protocol} needs a mechanism and the Secret of the login")
        if self.protocol == "PLAINTEXT" and (self.mechanism or self.secret):
            raise ValueError("protocol PLAINTEXT has neither mechanism nor Secret: name another protocol")
        return self


class WebIdentity(Part):
    """A token of the pod's service account, exchanged for credentials of a role.

    Attributes:
        role: `arn:...` of what the pod becomes.
        audience: that the token is for.
        issuer: URL of the STS; None: AWS's own.
    """

    role: Annotated[str, Field(min_length=1)]
    audience: Annotated[str, Field(min_length=1)] = "sts.amazonaws.com"
    issuer: Endpoint | None = None


class S3Client(Part):
    """How the object store is spoken to.

    Attributes:
        region: that requests are signed for.
        session_token: the Secret of the credentials has AWS_SESSION_TOKEN too.
        certificates: Secret of the release's namespace with `ca.crt`, where the store's certificate is its own.
        web_identity: in the place of keys; the Secret of credentials is not used then.
        version: differs when the Secret's values do: pods are started anew.
    """

    region: Region = REGION
    session_token: bool = False
    certificates: KubernetesName | None = None
    web_identity: WebIdentity | None = None
    version: str | None = None


class DatabaseClient(Part):
    """How PostgreSQL is spoken to.

    Attributes:
        mode: libpq's `sslmode`; None takes libpq's own, which encrypts where the server can and looks at nothing.
        certificates: Secret of the release's namespace with `ca.crt`, needed to look.
        version: differs when the values of the Secrets do: pods are started anew.
    """

    mode: Literal["require", "verify-ca", "verify-full"] | None = None
    certificates: KubernetesName | None = None
    version: str | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.certificates is not None) != (self.mode in ("verify-ca", "verify-full")):
            raise ValueError("certificates and mode verify-ca or verify-full belong together: set both or none")
        return self
