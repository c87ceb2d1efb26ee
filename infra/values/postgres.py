"""Values of the chart `postgres`: the result store."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infra.values.common import DataValues, KubernetesName, Resources, Storage
from infra.values.network import ServerPolicies


class PostgresValues(DataValues):
    """The result store.

    Attributes:
        credentials_secret: Secret of the release's namespace with the keys `username` and `password`; they are used
            when the data folder is made, later changes of the Secret do not change the database's user.
        database: made together with the data folder.
        resources: of the server.
        storage: of the data.
        network_policies: who may connect to it.
    """

    credentials_secret: KubernetesName = "postgres-credentials"  # noqa: S105 - a name
    database: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")] = "results"
    resources: Resources = Resources(cpu_request="50m", memory_request="96Mi", memory_limit="512Mi")
    storage: Storage = Storage(size="4Gi")
    network_policies: ServerPolicies = ServerPolicies()
