"""What the NetworkPolicies of the charts take: who may connect to their pods, and where these may connect to."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from infra.values.common import KubernetesName, Part, Port

METADATA: Final = (
    # Of most clouds, and of their containers, link-local addresses have it; the others are of one cloud each.
    "169.254.0.0/16",
    "100.100.100.200/32",
    "168.63.129.16/32",
    "fe80::/10",
    "fd00:ec2::254/128",
    "fd20:ce::254/128",
)
"""Where clouds tell whoever asks the credentials of the node."""
NODE_LOCAL_DNS: Final = "169.254.20.10/32"
"""Of a cache of names on every node, where a cluster has one: its pods have the node's network, and no labels."""
METRICS_PORT: Final = 9404
"""Of drivers, brokers and controllers."""
OUR_LABEL: Final = {"app.kubernetes.io/part-of": "effectively-once"}


def _network(cidr: str) -> str:
    """Return addresses as they are usually written. Raises ValueError: 10.0.0.1/8, say, is no network."""
    return str(ip_network(cidr))


Cidr = Annotated[str, AfterValidator(_network)]
"""Addresses as `10.0.0.0/8`."""


class Block(Part):
    """Addresses, without some of them."""

    cidr: Cidr
    excluded: tuple[Cidr, ...] = ()


def block(cidr: str) -> Block:
    """Return addresses without those of a cloud's metadata; who wants these names them alone."""
    whole = ip_network(cidr)
    return Block(cidr=cidr, excluded=tuple(one for one in METADATA if _lies_in(ip_network(one), whole)))


def _lies_in(part: IPv4Network | IPv6Network, whole: IPv4Network | IPv6Network) -> bool:
    if isinstance(part, IPv4Network):
        return isinstance(whole, IPv4Network) and part != whole and part.subnet_of(whole)
    return isinstance(whole, IPv6Network) and part != whole and part.subnet_of(whole)


ANYWHERE: Final = (block("0.0.0.0/0"), block("::/0"))


class Pods(Part):
    """Pods of a namespace, None: of any; with these labels, none: all of it."""

    namespace: KubernetesName | None = None
    labels: dict[str, str] = Field(default_factory=dict)


class Egress(Part):
    """Where pods may connect to: ports of pods, of addresses, or of both."""

    pods: Pods | None = None
    addresses: tuple[Block, ...] = ()
    ports: Annotated[tuple[Port, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        # A rule that names nobody means everybody.
        if self.pods is None and not self.addresses:
            raise ValueError("neither pods nor addresses are named: name one of them")
        return self


def anywhere(*ports: int) -> Egress:
    """Return ports of whatever has them, but for metadata. Some networks do not take a pod for an address: so both."""
    return Egress(pods=Pods(), addresses=ANYWHERE, ports=ports)


def broker(namespace: str | None = None) -> Egress:
    """Return the port of our brokers, None: in whatever namespace."""
    return _ours(9092, namespace, name="kafka", component="broker")


def object_store(namespace: str | None = None) -> Egress:
    """Return the port of our object store."""
    return _ours(9000, namespace, name="minio")


def result_store(namespace: str | None = None) -> Egress:
    """Return the port of our PostgreSQL."""
    return _ours(5432, namespace, name="postgres")


def _ours(port: int, namespace: str | None, **labels: str) -> Egress:
    own = {f"app.kubernetes.io/{key}": value for key, value in labels.items()}
    return Egress(pods=Pods(namespace=namespace, labels={**OUR_LABEL, **own}), ports=(port,))


def driver_metrics(namespace: str | None = None) -> Egress:
    """Return the port at which drivers tell what they do."""
    labels = {**OUR_LABEL, "app.kubernetes.io/name": "streaming-pipeline", "spark-role": "driver"}
    return Egress(pods=Pods(namespace=namespace, labels=labels), ports=(METRICS_PORT,))


def operator_metrics(namespace: str | None = None) -> Egress:
    """Return that of our Spark operator."""
    return _ours(8080, namespace, name="spark-operator")


def kafka_metrics(namespace: str | None = None, *components: str) -> tuple[Egress, ...]:
    """Return that of our brokers, and of the controllers where they stand apart."""
    return tuple(_ours(METRICS_PORT, namespace, name="kafka", component=one) for one in components or ("broker",))


API_SERVER: Final = Egress(addresses=ANYWHERE, ports=(443, 6443))


class NetworkPolicies(Part):
    """Of any chart.

    Attributes:
        enabled: without them everybody may connect to everybody.
    """

    enabled: bool = True


class ServerPolicies(NetworkPolicies):
    """Of a server.

    Attributes:
        clients: who may connect to it; the default is what any release of ours has.
    """

    clients: tuple[Pods, ...] = (Pods(labels=OUR_LABEL),)


class NamePolicies(NetworkPolicies):
    """Of pods that resolve names.

    Attributes:
        dns: addresses of name servers besides the cluster's own pods.
    """

    dns: tuple[Cidr, ...] = (NODE_LOCAL_DNS,)


class WatchedPolicies(NamePolicies):
    """Of what serves metrics at a port of their own.

    Attributes:
        watchers: who may ask for its metrics, where it serves any.
    """

    watchers: tuple[Pods, ...] = ()


class KafkaPolicies(ServerPolicies, WatchedPolicies):
    """Of brokers and controllers, which find each other by name."""


class StorePolicies(ServerPolicies, NamePolicies):
    """Of the object store, or of PostgreSQL; who gives rights finds it by name."""


class OperatorPolicies(WatchedPolicies):
    """Of the Spark operator.

    Attributes:
        api_server: where that of Kubernetes is.
    """

    api_server: Egress = API_SERVER


class WatchPolicies(NamePolicies):
    """Of what watches.

    Attributes:
        clients: who may ask Prometheus and Alertmanager.
        api_server: where that of Kubernetes is, which tells Prometheus of pods.
        drivers: whose metrics are asked for; the default is what any release of ours has.
        operator: likewise; None: it is not asked.
        kafka: likewise; none: it is not asked.
        object_store: likewise.
        receivers: where Alertmanager sends alerts.
    """

    clients: tuple[Pods, ...] = ()
    api_server: Egress = API_SERVER
    drivers: Egress = driver_metrics()
    operator: Egress | None = None
    kafka: tuple[Egress, ...] = ()
    object_store: Egress | None = None
    receivers: tuple[Egress, ...] = ()


class HistoryPolicies(NamePolicies):
    """Of the history server.

    Attributes:
        object_store: where that is.
    """

    object_store: Egress = object_store()


class PipelinePolicies(NamePolicies):
    """Of a pipeline.

    Attributes:
        api_server: where that of Kubernetes is.
        kafka: where the broker is.
        object_store: where that is.
        result_store: where that is; opened where the settings name a database.
        egress: where else the job's own code connects to.
        viewers: addresses that may ask for Spark's page; a forwarded port needs none.
    """

    api_server: Egress = API_SERVER
    kafka: Egress = broker()
    object_store: Egress = object_store()
    result_store: Egress = result_store()
    egress: tuple[Egress, ...] = ()
    viewers: tuple[Block, ...] = ()
