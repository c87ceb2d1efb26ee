"""Values of the chart `minio`: the object store."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.values.common import DataValues, ImageReference, KubernetesName, Part, Resources, Storage
from infra.values.exposure import Exposure
from infra.values.network import StorePolicies


class External(Part):
    """Access from outside the cluster: the S3 API and the console, one without the other or both."""

    api: Exposure = Exposure(port=12000, node_port=30900)
    console: Exposure = Exposure(port=12001, node_port=30901)


class Folder(Part):
    """All that lies in a folder of a bucket; see `effectively_once.operate.grant_objects`."""

    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    folder: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]*/)+$")]


class Security(Part):
    """TLS, and users with folders of their own. The owner's keys are for the server, and the Job that gives rights.

    Attributes:
        tls_secret: with `tls.crt`, `tls.key` and `ca.crt` of the server; another certificate has another name.
        users_secret: with the secret key of each user; another one has another name.
        policies: name -> what it lets read and write.
        users: access key -> policy. Users of ours that are not named are taken away.
        folders: those that have to be there before whoever writes into them.
        grant_image: has the library; it runs that job.
    """

    tls_secret: KubernetesName
    users_secret: KubernetesName
    policies: dict[str, tuple[Folder, ...]]
    users: dict[str, str]
    folders: tuple[Folder, ...] = ()
    grant_image: ImageReference


class MinioValues(DataValues):
    """The object store.

    Attributes:
        nodes: servers with a drive each; of four, three are enough to write and two to read.
        spread: they are on nodes of their own, of three nodes one has two: `soft` as far as there are nodes; `hard` or
            not at all.
        credentials_secret: Secret of the release's namespace with the keys `rootUser` and `rootPassword`.
        external: access from outside the cluster.
        resources: of the server.
        storage: of the data.
        security: None: plain connections, and nobody but the owner.
        metrics: whoever may connect to it may ask how it is: names and sizes of buckets too.
        network_policies: who may connect to it.
    """

    nodes: Literal[1, 4] = 1
    spread: Literal["soft", "hard"] = "soft"
    credentials_secret: KubernetesName = "minio-root"  # noqa: S105 - a name
    external: External = External()
    resources: Resources = Resources(cpu_request="100m", memory_request="256Mi", memory_limit="1Gi")
    storage: Storage = Storage(size="8Gi")
    security: Security | None = None
    metrics: bool = False
    network_policies: StorePolicies = StorePolicies()
