"""Values of the chart `minio`: the object store."""

from __future__ import annotations

from infra.values.common import KubernetesName, Part, Resources, Storage, Values
from infra.values.exposure import Exposure
from infra.values.network import ServerPolicies


class External(Part):
    """Access from outside the cluster: the S3 API and the console, one without the other or both."""

    api: Exposure = Exposure(port=12000, node_port=30900)
    console: Exposure = Exposure(port=12001, node_port=30901)


class MinioValues(Values):
    """The object store.

    Attributes:
        credentials_secret: Secret of the release's namespace with the keys `rootUser` and `rootPassword`.
        external: access from outside the cluster.
        resources: of the server.
        storage: of the data.
        network_policies: who may connect to it.
    """

    credentials_secret: KubernetesName = "minio-root"  # noqa: S105 - a name
    external: External = External()
    resources: Resources = Resources(cpu_request="100m", memory_request="256Mi", memory_limit="1Gi")
    storage: Storage = Storage(size="8Gi")
    network_policies: ServerPolicies = ServerPolicies()
