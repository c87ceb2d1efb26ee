"""Values of the chart `kafka`: KRaft, one or three nodes, controllers combined with the brokers or apart."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from infra.values.common import DataValues, ImageReference, KubernetesName, NodePort, Part, Port, Resources, Storage
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


class Right(Part):
    """What a user may do with names; see `effectively_once.operate.grant`."""

    kind: Literal["topic", "group", "transactional_id", "cluster"]
    name: Annotated[str, Field(min_length=1)]
    prefixed: bool = False
    operations: tuple[Literal["READ", "WRITE", "CREATE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALL"], ...]


class Security(Part):
    """TLS on every listener, a login for clients, and rights by user.

    Brokers and controllers know each other by certificates of the authority; so does who gives rights. Clients log in
    by SCRAM-SHA-512. Who is not in `users` may do nothing.

    Attributes:
        tls_secret: with `ca.crt`, and `keystore.pem`: the key (PKCS#8) and certificate of all nodes, of the name
            `platform-nodes`, for the names of all nodes and Services.
        admin_secret: with `ca.crt`, `tls.crt` and `tls.key`, of the name `platform-admin`: who gives rights.
        users_secret: with a password for each user.
        users: user -> rights.
        grant_image: has the library; it runs that job.
        version: differs when one of the Secrets does: nodes are started anew, and rights are given again.
    """

    tls_secret: KubernetesName
    admin_secret: KubernetesName
    users_secret: KubernetesName
    users: dict[str, tuple[Right, ...]]
    grant_image: ImageReference
    version: str


class KafkaValues(DataValues):
    """The broker.

    Attributes:
        nodes: brokers; replication follows: 1 copy with one, 3 copies and 2 in sync with three.
        controllers: 0: brokers are controllers too. 3: a StatefulSet `kafka-controller` of their own.
        spread: brokers, and controllers, are on nodes of their own: `soft` as far as there are nodes; `hard` or not at
            all, so that no node takes two copies with it.
        cluster_id: 22 characters of base64; it must never change while data exists.
        session_timeout_ms: after this silence a broker counts as dead, so a killed one is refused that long.
        heap_mib: heap of a broker.
        jvm_options: other options of the JVMs.
        controller_heap_mib: heap of a controller that stands apart.
        transaction_partitions: partitions of the transaction log; each costs time at start.
        offsets_partitions: partitions of the offsets topic.
        cluster_domain: the cluster's DNS domain.
        external: access from outside the cluster.
        metrics_port: every node serves Prometheus metrics there, without TLS; 0: nowhere.
        resources: of a broker.
        controller_resources: of a controller that stands apart.
        storage: of a broker and of a controller.
        termination_grace_s: a broker's clean stop hands over its leaderships.
        security: None: plain connections without login, from whoever may connect.
        network_policies: who may connect to it.
    """

    nodes: Literal[1, 3] = 1
    controllers: Literal[0, 3] = 0
    spread: Literal["soft", "hard"] = "soft"
    cluster_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{21}$")] = "ZWZmZWN0aXZlbHktb25jZQ"
    session_timeout_ms: Annotated[int, Field(ge=2000, le=60_000)] = 4000
    heap_mib: Annotated[int, Field(ge=192)] = 384
    jvm_options: str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    controller_heap_mib: Annotated[int, Field(ge=128)] = 256
    transaction_partitions: Annotated[int, Field(ge=1, le=50)] = 4
    offsets_partitions: Annotated[int, Field(ge=1, le=50)] = 1
    cluster_domain: str = "cluster.local"
    external: External = External()
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = 0
    resources: Resources = Resources(cpu_request="150m", memory_request="640Mi", memory_limit="1Gi")
    controller_resources: Resources = Resources(cpu_request="100m", memory_request="384Mi", memory_limit="640Mi")
    storage: Storage = Storage(size="8Gi")
    termination_grace_s: Annotated[int, Field(ge=1)] = 45
    security: Security | None = None
    network_policies: KafkaPolicies = KafkaPolicies()

    @model_validator(mode="after")
    def _ports_in_range(self) -> Self:
        if self.external.by == "NodePort" and self.external.node_port + self.nodes - 1 > 32767:
            raise ValueError(f"external.nodePort {self.external.node_port} leaves no NodePort for {self.nodes} nodes")
        return self

    @property
    def components(self) -> tuple[str, ...]:
        """Kinds of pods, by their label."""
        return ("broker", "controller") if self.controllers else ("broker",)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Where nodes serve metrics, in the same namespace."""
        sets = {"kafka": self.nodes, "kafka-controller": self.controllers}
        names = [f"{name}-{node}.{name}-nodes" for name, count in sets.items() for node in range(count)]
        return tuple(f"{name}:{self.metrics_port}" for name in names) if self.metrics_port else ()

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
