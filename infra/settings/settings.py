"""The settings of a deployment, typed. Units are in the names; None takes the chart's own value."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.settings.external_access import ExternalAccess
from infra.settings.field_types import Label
from infra.settings.history_server import HistoryServer
from infra.settings.images import Images
from infra.settings.kafka import Kafka
from infra.settings.monitoring import Monitoring
from infra.settings.network_policies import NetworkPolicies
from infra.settings.object_store import ObjectStore
from infra.settings.pipeline import Pipeline
from infra.settings.result_store import ResultStore
from infra.settings.scheduling import NO_CLASS, ClassKind, Scheduling
from infra.settings.section import PROJECT, Section
from infra.settings.security import Security
from infra.settings.spark_operator import SparkOperator
from infra.settings.storage import Storage


class Settings(Section):
    """Everything a deployment is made of.

    Attributes:
        namespace: the platform's namespace, and the beginning of the operator's and the pipelines'.
        image_pull_secrets: names of Secrets that you put into each namespace (make the namespaces before: they are
            used, and left by a destroy).
        architecture: of the images; pods go to such nodes only.
        context: kubeconfig context; None takes the current one.
        confirm_context: the name of a context that is not ours, to say that it is meant.
        adopt_credentials: use the passwords that an earlier destroy left with the volumes.
        pipeline_prefix: begins every identity and default topic, so that platforms can share broker and store.
    """

    profile: Literal["laptop", "ci", "chaos", "brokers", "ha", "production"]
    namespace: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$")] = PROJECT
    images: Images
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[Label, ...] = ()
    architecture: Literal["amd64", "arm64"] | None = None
    context: str | None = None
    confirm_context: str | None = None
    adopt_credentials: bool = False
    storage: Storage = Storage()
    kafka: Kafka = Kafka()
    object_store: ObjectStore = ObjectStore()
    result_store: ResultStore = ResultStore()
    spark_operator: SparkOperator = SparkOperator()
    history_server: HistoryServer = HistoryServer()
    monitoring: Monitoring = Monitoring()
    external_access: ExternalAccess = ExternalAccess()
    network_policies: NetworkPolicies = NetworkPolicies()
    security: Security = Security()
    scheduling: Scheduling = Scheduling()
    pipeline_prefix: Annotated[str, Field(pattern=r"^([a-z][a-z0-9_]*)?$")] = ""
    pipelines: dict[str, Pipeline] = Field(default_factory=dict)

    @property
    def operator_namespace(self) -> str:
        """Where the Spark operator runs."""
        return f"{self.namespace}-operator"

    @property
    def pipelines_namespace(self) -> str:
        """Where drivers and executors run."""
        return f"{self.namespace}-pipelines"

    def own_priority_class(self, kind: ClassKind) -> str:
        """The PriorityClass that the program makes for pods of a kind; all stacks of a cluster see it."""
        return f"{self.namespace}-{kind}"

    def priority_class(self, kind: ClassKind) -> str | None:
        """The PriorityClass of pods of a kind; None for the cluster's default."""
        given: str | None = getattr(self.scheduling.priority_classes, kind)
        return None if given == NO_CLASS else given or self.own_priority_class(kind)
