"""The object store: ours, or one that is there already."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from infra.settings.field_types import Bucket, Endpoint, Label, Quantity, SecretReference
from infra.settings.resources import Resources
from infra.settings.section import PROJECT, Section


class WebIdentity(Section):
    """A role that pods become with the token of their service account, in the place of keys.

    Attributes:
        role: `arn:...`; it trusts the cluster's issuer of tokens, and `<namespace>-pipelines:<pipeline>`.
        audience: that the token is for.
        issuer: URL of the STS; None: AWS's own of the region.
    """

    role: Annotated[str, Field(min_length=1)]
    audience: Annotated[str, Field(min_length=1)] = "sts.amazonaws.com"
    issuer: Endpoint | None = None


class ExternalObjectStore(Section):
    """An S3 endpoint that is there already; every Secret is `namespace/name`.

    Attributes:
        endpoint: http://host:port or https://host:port.
        region: that requests are signed for.
        credentials_secret: with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
        session_token: that Secret has AWS_SESSION_TOKEN too. When it expires, pipelines end.
        web_identity: in the place of that Secret.
        ca_secret: with `ca.crt`, where the store's certificate is its own; None: those that everybody trusts.
    """

    endpoint: Endpoint
    region: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}$")] = "us-east-1"
    credentials_secret: SecretReference | None = None
    session_token: bool = False
    web_identity: WebIdentity | None = None
    ca_secret: SecretReference | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.credentials_secret is None) == (self.web_identity is None):
            raise ValueError("either credentials_secret or web_identity has to be set")
        if self.session_token and self.credentials_secret is None:
            raise ValueError("session_token belongs to credentials_secret: leave it out")
        if self.ca_secret is not None and not self.endpoint.startswith("https://"):
            raise ValueError(f"endpoint {self.endpoint} shows no certificate: leave ca_secret out, or write https://")
        return self


class ObjectStore(Section):
    """The object store; `bucket` is that of every pipeline that names no other, and of the event logs.

    Attributes:
        nodes: servers with a drive of `storage_size` each. Of four one may be away, and its drive lost.
        clients: namespaces whose pods may connect to ours, besides the pipelines' own.
    """

    external: ExternalObjectStore | None = None
    bucket: Bucket = PROJECT
    nodes: Literal[1, 4] = 1
    storage_size: Quantity = "8Gi"
    resources: Resources | None = None
    clients: tuple[Label, ...] = ()
