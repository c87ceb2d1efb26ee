"""Values of the chart `spark-operator`. Its CRDs are not in the chart: they are applied server-side before."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from infra.values.common import KubernetesName, Resources, ServerValues
from infra.values.network import OperatorPolicies


class SparkOperatorValues(ServerValues):
    """The operator.

    Attributes:
        namespaces: those with SparkApplications; its rights end there.
        replicas: more than one needs leader election.
        leader_election: with it a restarted operator waits for the lease of the one before (about 15 s).
        ui_service: make a Service for every Spark UI.
        workers: SparkApplications that are looked after at a time.
        log_level: of the operator.
        metrics_port: it serves Prometheus metrics there; 0: nowhere.
        resources: spark-submit, a JVM of some seconds per submission, runs in the operator's container.
        network_policies: where it may connect to.
    """

    namespaces: Annotated[tuple[KubernetesName, ...], Field(min_length=1)]
    replicas: Annotated[int, Field(ge=1, le=3)] = 1
    leader_election: bool = False
    ui_service: bool = True
    workers: Annotated[int, Field(ge=1, le=50)] = 4
    log_level: Literal["debug", "info", "error"] = "info"
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = 0
    resources: Resources = Resources(cpu_request="100m", memory_request="128Mi", memory_limit="768Mi")
    network_policies: OperatorPolicies = OperatorPolicies()

    @model_validator(mode="after")
    def _one_leads(self) -> Self:
        if self.replicas > 1 and not self.leader_election:
            raise ValueError(f"replicas is {self.replicas}: more than one needs leaderElection true")
        return self
