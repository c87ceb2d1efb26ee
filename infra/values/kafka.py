"""Values of the chart `kafka`: KRaft, one or three nodes, controllers combined with the brokers or apart."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from infra.values.common import NodePort, Port, Resources, Storage, Values
from infra.values.exposure import Exposure
from infra.values.network import KafkaPolicies


class External(Exposure):
    """Each node has its own: node i is `host:port+i`, NodePort `node_port+i`.

    Attributes:
        by: an Ingress speaks HTTP, so it is none of them.
        host: that brokers tell such clients; `{node}` in it stands for the node's number.
        port: of node 0.
        node_port: of node 0.
    """

    by: Literal["none", "NodePort", "LoadBalancer"] = "none"
    port: Port = 12092
    node_port: NodePort = 30092


class KafkaValues(Values):
    """The broker.

    Attributes:
        nodes: brokers; replication follows: 1 copy with one, 3 copies and 2 in sync with three.
        controllers: 0: brokers are controllers too. 3: a StatefulSet `kafka-controller` of their own.
        cluster_id: 22 characters of base64; it must never change while data exists.
        session_timeout_ms: after this silence a broker counts as dead, so a killed one is refused that long.
        heap_mib: heap of a broker.
        jvm_options: other options of the JVMs.
        controller_heap_mib: heap of a controller that stands apart.
        transaction_partitions: partitions of the transaction log; each costs time at start.
        offsets_partitions: partitions of the offsets topic.
        cluster_domain: the cluster's DNS domain.
        external: access from outside the cluster.
        resources: of a broker.
        controller_resources: of a controller that stands apart.
        storage: of a broker and of a controller.
        termination_grace_s: a broker's clean stop hands over its leaderships.
        network_policies: who may connect to it.
    """

    nodes: Literal[1, 3] = 1
    controllers: Literal[0, 3] = 0
    cluster_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{21}$")] = "ZWZmZWN0aXZlbHktb25jZQ"
    session_timeout_ms: Annotated[int, Field(ge=2000, le=60_000)] = 4000
    heap_mib: Annotated[int, Field(ge=192)] = 384
    jvm_options: str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    controller_heap_mib: Annotated[int, Field(ge=128)] = 256
    transaction_partitions: Annotated[int, Field(ge=1, le=50)] = 4
    offsets_partitions: Annotated[int, Field(ge=1, le=50)] = 1
    cluster_domain: str = "cluster.local"
    external: External = External()
    resources: Resources = Resources(cpu_request="150m", memory_request="640Mi", memory_limit="1Gi")
    controller_resources: Resources = Resources(cpu_request="100m", memory_request="384Mi", memory_limit="640Mi")
    storage: Storage = Storage(size="8Gi")
    termination_grace_s: Annotated[int, Field(ge=1)] = 45
    network_policies: KafkaPolicies = KafkaPolicies()

    @model_validator(mode="after")
    def _ports_in_range(self) -> Self:
        if self.external.by == "NodePort" and self.external.node_port + self.nodes - 1 > 32767:
            raise ValueError(f"external.nodePort {self.external.node_port} leaves no NodePort for {self.nodes} nodes")
        return self

    @property
    def replication(self) -> int:
        """Copies of every partition, also for topics that others create."""
        return self.nodes

    @property
    def bootstrap(self) -> str:
        """Where clients in the same namespace begin; put the namespace behind the name elsewhere."""
        return "kafka:9092"

    @property
    def external_bootstrap(self) -> str | None:
        """Where clients outside the cluster begin, None without external access."""
        if self.external.by == "none":
            return None
        hosts = (self.external.host.replace("{node}", str(node)) for node in range(self.nodes))
        return ",".join(f"{host}:{self.external.port + node}" for node, host in enumerate(hosts))
