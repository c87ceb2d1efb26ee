"""What the values of several charts share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
"""A quantity of Kubernetes: `150m` of a core, `512Mi` of memory, `8Gi` of a volume."""

KubernetesName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
"""A name that Kubernetes takes everywhere (RFC 1123 label)."""

ObjectName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]
"""A name of a Secret or a class, which may have dots (RFC 1123 subdomain)."""

ImageReference = Annotated[str, Field(pattern=r"^\S+$", min_length=1)]
Schedule = Annotated[str, Field(pattern=r"^(@(hourly|daily|weekly|monthly)|\S+( \S+){4})$")]
"""What cron understands: `17 3 * * *`, or `@daily`."""
Port = Annotated[int, Field(ge=1, le=65535)]
NodePort = Annotated[int, Field(ge=30000, le=32767)]


class Part(BaseModel):
    """A part of a chart's values: camelCase names outside, unknown names refused, unchangeable."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Toleration(Part):
    """A taint that pods accept; the fields are those of Kubernetes."""

    key: str | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class Resources(Part):
    """What a container asks for. There is no CPU limit: throttling looks like a fault."""

    cpu_request: Quantity
    memory_request: Quantity
    memory_limit: Quantity


class Storage(Part):
    """A volume per pod.

    Attributes:
        storage_class: None takes the cluster's default class.
        size: of one volume.
        retain: keep volumes when the StatefulSet is deleted (a deleted namespace takes them with it all the same).
    """

    storage_class: str | None = None
    size: Quantity
    retain: bool = False


class Values(Part):
    """What every chart takes.

    Attributes:
        image: the whole reference, tag or digest included.
        image_pull_policy: tags are content hashes, so a present image is the right one.
        image_pull_secrets: names of Secrets in the release's namespace.
        node_selector: labels that a node must carry.
        tolerations: taints that pods accept.
    """

    image: ImageReference
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()

    def to_helm(self) -> dict[str, Any]:
        """Return the chart's values as plain JSON types; what is None is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class ServerValues(Values):
    """What charts of servers take: pipelines wait for most, and what watches says when nodes are full.

    Attributes:
        priority_class: of its pods; None takes the cluster's default.
    """

    priority_class: ObjectName | None = None


class DataValues(ServerValues):
    """What charts of servers with data take.

    Attributes:
        hold_single_copy: the pod of a server that has one copy is not evicted: a drain of its node waits until somebody
            deletes it.
    """

    hold_single_copy: bool = False
