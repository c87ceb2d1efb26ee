"""What a platform that is there cannot be changed to: refused by name before anything is changed.

Claims of a StatefulSet are fixed when it is made; a Kafka quorum and the drives of an object store, when their volumes
are formatted. Others would end in empty volumes, or in servers without their quorum. Servers that take plain
connections can be changed, and are not unasked: whoever uses them would be cut off. The cluster knows what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from infra.components.adopted import wrong_secrets
from infra.components.volumes import ANEW, Claim, Find, claims, wrong_volumes
from infra.settings import Settings, SettingsError
from infra.settings.security import ALL, EACH

SETS: Final = {"kafka": ("kafka", "kafka-controller"), "object_store": ("minio",), "result_store": ("postgres",)}
"""StatefulSets of each server, by the setting that secures it."""
TLS: Final = "tls"
"""Volume of a pod with its server's certificate; the charts name it."""
HOW: Final = "docs/how-to/secure-a-cluster.md"


def require_same(settings: Settings, find: Find) -> None:
    """Compare what is wanted with volumes, StatefulSets and kept passwords; what is not there is free to be anything.

    Raises SettingsError with a line per setting that cannot be changed, or asks for what is not there.
    """
    there = claims(settings.namespace, find)
    wrong = [
        *wrong_volumes(settings, there, find),
        *_quorum(settings, there, find),
        *_drives(settings, there, find),
        *_plain(settings, find),
        *wrong_secrets(settings, find),
    ]
    if wrong:
        raise SettingsError(wrong)


def _quorum(settings: Settings, there: list[Claim], find: Find) -> Iterator[str]:
    if settings.kafka.external is not None:
        return
    brokers, apart = (_stateful_set(settings, name, find) for name in ("kafka", "kafka-controller"))
    nodes, controllers = _count_made(brokers, "kafka", there), _count_made(apart, "kafka-controller", there)
    if brokers is not None and controllers is None and not _controls(brokers):
        # A deployment that was interrupted: its controllers are still to come.
        controllers = settings.kafka.controllers
    for field, made, wanted in (
        ("nodes", nodes, settings.kafka.nodes),
        ("controllers", controllers or 0, settings.kafka.controllers),
    ):
        if nodes is not None and made != wanted:
            yield f"kafka.{field}: the quorum was formatted for {made}, got {wanted}; {ANEW}"


def _drives(settings: Settings, there: list[Claim], find: Find) -> Iterator[str]:
    if settings.object_store.external is not None:
        return
    made, wanted = _count_made(_stateful_set(settings, "minio", find), "minio", there), settings.object_store.nodes
    if made is not None and made != wanted:
        yield f"object_store.nodes: the drives were formatted for {made}, got {wanted}; {ANEW}"


def _plain(settings: Settings, find: Find) -> Iterator[str]:
    """Yield servers that are there with plain connections, and would be secured by a default alone."""
    for server, names in SETS.items():
        if not getattr(settings.security, server) or settings.security.is_asked(server):
            continue
        specs = {name: spec for name in names if (spec := _stateful_set(settings, name, find)) is not None}
        if plain := [name for name, spec in specs.items() if not _shows_certificate(spec)]:
            yield (
                f"security.{server}: {', '.join(plain)} in namespace {settings.namespace} takes plain connections, and "
                f"the default, security.level {ALL}, would end them for every client that has no login. "
                f"`pulumi config set --path security.level {EACH}` keeps what is there; `pulumi config set --path "
                f"security.level {ALL}` changes it as {HOW} says"
            )


def _shows_certificate(spec: Mapping[str, Any]) -> bool:
    return any(one["name"] == TLS for one in spec["template"]["spec"].get("volumes") or ())


def _stateful_set(settings: Settings, name: str, find: Find) -> dict[str, Any] | None:
    """Return its `spec`, None when it is not there."""
    found = find(f"/apis/apps/v1/namespaces/{settings.namespace}/statefulsets/{name}")
    return None if found is None else dict(found["spec"])


def _count_made(spec: dict[str, Any] | None, name: str, there: list[Claim]) -> int | None:
    """Return how many nodes were made, None when there were none.

    Of a StatefulSet that is gone, or was scaled to nothing, the volumes tell.
    """
    replicas = int(spec.get("replicas") or 0) if spec else 0
    return replicas or max((1 + claim.ordinal for claim in there if claim.set == name), default=None)


def _controls(brokers: dict[str, Any]) -> bool:
    """Return whether brokers are controllers too."""
    (container,) = brokers["template"]["spec"]["containers"]
    return any(port["name"] == "controller" for port in container["ports"])
