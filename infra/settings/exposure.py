"""What is usual for each way into the cluster, and what contradicts itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from infra.settings.external_access import Exposed
from infra.settings.settings import Settings

LOOPBACK: Final = "127.0.0.1"
NODE: Final = "{node}"
OUTSIDE: Final = {"kafka": 12092, "object_store": 12000, "console": 12001, "history_server": 12080}
"""Where the kind cluster of this machine publishes node ports."""
NODE_PORTS: Final = {"kafka": 30092, "object_store": 30900, "console": 30901, "history_server": 30180}
OWN: Final = {"kafka": 9092, "object_store": 9000, "console": 9001, "history_server": 18080}
"""Ports of the services themselves, which load balancers keep."""
HTTPS, HTTP = 443, 80


def resolve_exposure(settings: Settings, name: str) -> Exposed:
    """Return how `name` is reached, with what is usual filled in."""
    way: Exposed = getattr(settings.external_access, name)
    ingress = HTTPS if way.tls_secret else HTTP
    usual = {"LoadBalancer": OWN[name], "Ingress": ingress}.get(way.by, OUTSIDE[name])
    return way.model_copy(
        update={
            "host": way.host or LOOPBACK,
            "port": way.port or usual,
            "node_port": way.node_port or NODE_PORTS[name],
        }
    )


def contradictions(settings: Settings, configured: Collection[str]) -> Iterator[str]:
    """Yield a line per setting that another one takes the sense of; `configured` are no profile's."""
    for name in OUTSIDE:
        where = f"external_access.{name}"
        way: Exposed = getattr(settings.external_access, name)
        if way.by == "none":
            if said := [field for field in Exposed.model_fields if field != "by" and field in way.model_fields_set]:
                yield f"{where}.{said[0]}: {where}.by is none, so nobody would read it; set that, or leave this out"
        elif (missing := _missing(settings, name)) and name in configured:
            yield f"{where}.by: {missing}, so there is nothing to be reached; leave it out"
        else:
            yield from _of_one(where, name, way, settings.kafka.nodes)
    yield from _find_shared(settings)


def _missing(settings: Settings, name: str) -> str | None:
    external = {"kafka": settings.kafka.external, "history_server": None}.get(name, settings.object_store.external)
    if external is not None:
        return f"{'kafka' if name == 'kafka' else 'object_store'}.external is not ours"
    return (
        "history_server.enabled is false" if name == "history_server" and not settings.history_server.enabled else None
    )


def _of_one(where: str, name: str, way: Exposed, nodes: int) -> Iterator[str]:
    if name == "kafka" and way.by == "Ingress":
        yield f"{where}.by: an Ingress speaks HTTP and Kafka does not; NodePort or LoadBalancer is allowed"
        return
    if way.by != "NodePort":
        if way.host is None:
            yield f"{where}.host: has to be set with {way.by}: the name that clients use"
        if way.node_port is not None:
            yield f"{where}.node_port: belongs to NodePort, and {where}.by is {way.by}; leave it out"
    elif way.annotations:
        yield f"{where}.annotations: belong to LoadBalancer and Ingress, and {where}.by is NodePort; leave them out"
    if way.by != "Ingress":
        for field in ("ingress_class", "tls_secret"):
            if getattr(way, field) is not None:
                yield f"{where}.{field}: belongs to Ingress, and {where}.by is {way.by}; leave it out"
    each = name == "kafka" and way.by == "LoadBalancer"
    if each and nodes > 1 and way.host is not None and NODE not in way.host:
        yield (
            f"{where}.host: each of {nodes} brokers has a load balancer of its own, got {way.host!r}; "
            f"name them with {NODE}, as in kafka-{NODE}.example"
        )
    if not each and NODE in (way.host or ""):
        yield f"{where}.host: {NODE} stands for brokers with a load balancer each, got {way.host!r}"


def _find_shared(settings: Settings) -> Iterator[str]:
    """Yield what two services would answer at: addresses outside, node ports inside."""
    taken: dict[object, str] = {}
    for name in OUTSIDE:
        if getattr(settings.external_access, name).by == "none" or _missing(settings, name):
            continue
        way = resolve_exposure(settings, name)
        for node in range(settings.kafka.nodes if name == "kafka" else 1):
            address = f"{str(way.host).replace(NODE, str(node))}:{(way.port or 0) + node}"
            inside = (way.node_port or 0) + node
            for field, at in (("port", address), ("node_port", inside if way.by == "NodePort" else None)):
                other = taken.setdefault(at, name) if at is not None else name
                if other != name:
                    yield f"external_access.{name}.{field}: {at} is that of {other} already; name another"
