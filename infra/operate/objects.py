"""Objects of Kubernetes, as far as an operator's commands look at them; absent and null fields take the defaults."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

NAME = "app.kubernetes.io/name"
PART_OF = "app.kubernetes.io/part-of"
PIPELINE = "effectively-once/pipeline"
APPLICATION = "sparkoperator.k8s.io/app-name"
ROLE = "spark-role"
EXECUTOR_ID = "spark-exec-id"
PROJECT = "effectively-once"


class Part(BaseModel):
    """A part of an object of the API."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        return {key: value for key, value in given.items() if value is not None} if isinstance(given, dict) else given


class Meta(Part):
    """Who an object is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class Waiting(Part):
    """Why a container has not started."""

    reason: str = ""
    message: str = ""


class Running(Part):
    """That a container runs."""


class Terminated(Part):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(Part):
    """One of the three, or none."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class Container(Part):
    """The status of a container."""

    name: str
    image: str = ""
    ready: bool = False
    started: bool = True
    restart_count: int = 0
    container_id: str = Field(default="", alias="containerID")
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class Condition(Part):
    """One condition of a pod or node."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class PodStatus(Part):
    """What the kubelet and the scheduler say about a pod."""

    phase: str = "Unknown"
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[Container, ...] = ()
    init_container_statuses: tuple[Container, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, None when it was never said."""
        return next((one for one in self.conditions if one.type == kind), None)


class ContainerSpec(Part):
    """A container as it was asked for."""

    name: str


class PodSpec(Part):
    """What of a pod's wishes is looked at."""

    node_name: str = ""
    containers: tuple[ContainerSpec, ...] = ()


class Pod(Part):
    """A pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def application(self) -> str:
        """The SparkApplication or pipeline it belongs to, or nothing."""
        labels = self.metadata.labels
        return labels.get(APPLICATION) or labels.get(PIPELINE, "")

    @property
    def role(self) -> str:
        """`driver`, `executor` or nothing."""
        return self.metadata.labels.get(ROLE, "")

    @property
    def restarts(self) -> int:
        """How often its containers were started again."""
        return sum(one.restart_count for one in self.status.container_statuses)


class Replicated(Part):
    """How many pods are wanted."""

    replicas: int = 1


class Workload(Part):
    """A StatefulSet or Deployment."""

    kind: str = ""
    metadata: Meta
    spec: Replicated = Replicated()


class NodeSpec(Part):
    """Whether new pods are kept away."""

    unschedulable: bool = False


class NodeStatus(Part):
    """Conditions of a node."""

    conditions: tuple[Condition, ...] = ()


class Node(Part):
    """A node."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Involved(Part):
    """What an event is about."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class Series(Part):
    """An event that repeats."""

    last_observed_time: datetime | None = None


class Event(Part):
    """Something that happened to an object."""

    metadata: Meta = Meta()
    involved_object: Involved = Involved()
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    first_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: Series = Series()

    @property
    def at(self) -> datetime | None:
        """When it happened last; which field says so depends on who wrote it."""
        return (
            self.series.last_observed_time
            or self.last_timestamp
            or self.event_time
            or self.first_timestamp
            or self.metadata.creation_timestamp
        )


class ApplicationState(Part):
    """What the operator says about a SparkApplication."""

    state: str = ""
    error_message: str = ""


class DriverInfo(Part):
    """Where the driver is."""

    pod_name: str = ""
    web_ui_port: int = Field(default=4040, alias="webUIPort")


class ApplicationStatus(Part):
    """Status of a SparkApplication."""

    application_state: ApplicationState = ApplicationState()
    driver_info: DriverInfo = DriverInfo()
    execution_attempts: int = 0


class ExecutorSpec(Part):
    """How many executors are wanted."""

    instances: int = 1


class ApplicationSpec(Part):
    """What of a SparkApplication's wishes is looked at."""

    suspend: bool = False
    executor: ExecutorSpec = ExecutorSpec()


class Application(Part):
    """A SparkApplication."""

    metadata: Meta
    spec: ApplicationSpec = ApplicationSpec()
    status: ApplicationStatus = ApplicationStatus()
