"""The result store: our PostgreSQL, or one that is there already."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from infra.settings.field_types import Label, Port, Quantity, SecretReference
from infra.settings.resources import Resources
from infra.settings.section import Section

RESERVED: Final = ("public", "none", "information_schema", "effectively_once")
"""Names that PostgreSQL or the platform has for a role or a schema of its own, besides those that begin with `pg_`."""


class ExternalResultStore(Section):
    """A PostgreSQL that is there already; every Secret is `namespace/name`.

    Attributes:
        credentials_secret: with `username` and `password`.
        ssl_mode: as libpq names it; None takes libpq's own: encrypted where the server can, and by whomever.
        ca_secret: with `ca.crt`, for `verify-ca` and `verify-full`.
    """

    host: Annotated[str, Field(pattern=r"^[^\s:/]+$")]
    port: Port = 5432
    credentials_secret: SecretReference
    ssl_mode: Literal["require", "verify-ca", "verify-full"] | None = None
    ca_secret: SecretReference | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.ca_secret is not None) != (self.ssl_mode in ("verify-ca", "verify-full")):
            raise ValueError("ca_secret and ssl_mode verify-ca or verify-full belong together: set both or none")
        return self


class ResultStore(Section):
    """PostgreSQL, for pipelines that publish into tables.

    Attributes:
        clients: namespaces whose pods may connect to ours, besides the pipelines' own.
    """

    enabled: bool = True
    external: ExternalResultStore | None = None
    database: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")] = "results"
    storage_size: Quantity = "4Gi"
    resources: Resources | None = None
    clients: tuple[Label, ...] = ()
