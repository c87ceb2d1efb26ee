"""Values of the chart `postgres`: the result store."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infra.values.common import DataValues, ImageReference, KubernetesName, Part, Resources, Storage
from infra.values.network import StorePolicies

Role = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


class Security(Part):
    """TLS on every connection, and a role for each pipeline, for the schema and the marks of its own name.

    The owner's login is for the server, and for the Job that gives rights.

    Attributes:
        tls_secret: with `tls.crt` and `tls.key`, of the server's names, and `ca.crt`, by which that Job checks it.
        users_secret: with a password for each role; another one has another name.
        users: roles. Those of ours that are not named log in no more.
        grant_image: has the library; it runs that job.
    """

    tls_secret: KubernetesName
    users_secret: KubernetesName
    users: tuple[Role, ...]
    grant_image: ImageReference


class PostgresValues(DataValues):
    """The result store.

    Attributes:
        credentials_secret: Secret of the release's namespace with the keys `username` and `password`; they are used
            when the data folder is made, later changes of the Secret do not change the database's user.
        database: made together with the data folder.
        resources: of the server.
        storage: of the data.
        security: None: plain connections, and nobody but the owner.
        network_policies: who may connect to it.
    """

    credentials_secret: KubernetesName = "postgres-credentials"  # noqa: S105 - a name
    database: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")] = "results"
    resources: Resources = Resources(cpu_request="50m", memory_request="96Mi", memory_limit="512Mi")
    storage: Storage = Storage(size="4Gi")
    security: Security | None = None
    network_policies: StorePolicies = StorePolicies()
