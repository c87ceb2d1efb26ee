"""Values of the chart `history-server`: Spark's UI of drivers that have ended, from their event logs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infra.values.clients import S3Client
from infra.values.common import KubernetesName, Resources, Values
from infra.values.exposure import Exposure
from infra.values.network import HistoryPolicies


class HistoryServerValues(Values):
    """The history server.

    Attributes:
        s3_endpoint: http://host:port or https://host:port of the object store.
        bucket: event logs lie below `spark-events/` in it.
        folders: below that, one for each pipeline; none: all are in `spark-events/` itself.
        credentials_secret: Secret of the release's namespace with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
        s3: how the object store is spoken to.
        update_interval_s: how often it looks for new logs.
        heap_mib: heap of the JVM.
        external: access from outside the cluster.
        resources: of the server.
        network_policies: where it may connect to.
    """

    s3_endpoint: Annotated[str, Field(pattern=r"^https?://[^/\s]+$")]
    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    folders: tuple[KubernetesName, ...] = ()
    credentials_secret: KubernetesName = "object-store-credentials"  # noqa: S105 - a name
    s3: S3Client = S3Client()
    update_interval_s: Annotated[int, Field(ge=1)] = 20
    heap_mib: Annotated[int, Field(ge=128)] = 256
    external: Exposure = Exposure(port=12080, node_port=30180)
    resources: Resources = Resources(cpu_request="50m", memory_request="320Mi", memory_limit="640Mi")
    network_policies: HistoryPolicies = HistoryPolicies()
